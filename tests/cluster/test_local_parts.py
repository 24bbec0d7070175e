# SPDX-License-Identifier: Apache-2.0
"""What the local cluster decides before it does anything: ports, groups, packages, nodes, images."""

import hashlib
import io
import json
import shutil
import socket
import tarfile
from pathlib import Path

import pytest

from e2e.cluster.interface import ClusterError
from e2e.cluster.local import cgroups, node, packages, pause_image, simulated
from e2e.cluster.local.control_plane import programs
from e2e.cluster.local.endpoints import Endpoints
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.pki import Authority

HYBRID = """\
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
UNIFIED = """\
proc /proc proc rw,nosuid 0 0
cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0
"""


def test_free_ports_are_different_and_can_be_listened_on() -> None:
    endpoints = Endpoints.free()
    ports = [
        endpoints.apiserver,
        endpoints.controller_manager,
        endpoints.etcd,
        endpoints.etcd_peers,
        endpoints.kwok,
        endpoints.scheduler,
    ]

    assert len(set(ports)) == len(ports)
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.parametrize(
    ("mounts", "folders"),
    [
        (HYBRID, ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"]),
        (UNIFIED, ["/sys/fs/cgroup"]),
        ("cgroup /a\\040b cgroup rw,cpu 0 0\n", ["/a b"]),
    ],
)
def test_the_hierarchies_of_control_groups_are_those_that_are_mounted(mounts: str, folders: list[str]) -> None:
    assert cgroups.hierarchies(mounts) == [Path(folder) for folder in folders]


@pytest.mark.parametrize(("name", "weight"), [("cpu.shares", "4096"), ("cpu.weight", "400")])
def test_the_nodes_group_weighs_as_much_as_four_where_cores_are_shared_out(
    tmp_path: Path, name: str, weight: str
) -> None:
    cgroups.weigh(tmp_path)
    assert list(tmp_path.iterdir()) == []

    (tmp_path / name).write_text("1")
    cgroups.weigh(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, weight)]


def test_packages_are_missing_whose_programs_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"containerd", "ctr", "/usr/lib/cni/bridge"}
    monkeypatch.setattr(shutil, "which", lambda program, path: None if program in absent else program)

    assert packages.missing() == ["containerd", "containernetworking-plugins"]


def test_without_root_a_node_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    with pytest.raises(ClusterError, match=r"needs root.*--control-plane-only"):
        packages.require()


def test_the_pause_image_is_an_image_layout_whose_digests_hold(tmp_path: Path) -> None:
    program = tmp_path / "busybox"
    program.write_bytes(b"a static program")

    pause_image.write(tmp_path / "pause.tar", program, reference="tandem.dev/some:1")

    with tarfile.open(tmp_path / "pause.tar") as archive:
        files = {member.name: content(archive, member) for member in archive}
    (manifest,) = json.loads(files["index.json"])["manifests"]
    assert manifest["annotations"]["io.containerd.image.name"] == "tandem.dev/some:1"
    for name, blob in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}"
    layers = json.loads(files["blobs/sha256/" + manifest["digest"].removeprefix("sha256:")])["layers"]
    with tarfile.open(
        fileobj=io.BytesIO(files["blobs/sha256/" + layers[0]["digest"].removeprefix("sha256:")])
    ) as layer:
        assert [(member.name, member.mode) for member in layer] == [("busybox", 0o755)]


def content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def test_a_simulated_node_has_the_devices_of_a_p5en_and_keeps_other_pods_away() -> None:
    made = simulated.node(0)

    allocatable = made["status"]["allocatable"]
    assert (allocatable["nvidia.com/gpu"], allocatable["vpc.amazonaws.com/efa"]) == ("8", "16")
    assert allocatable["hugepages-2Mi"] == "42242Mi"
    assert made["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "p5en.48xlarge"
    assert made["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("label", "groups"),
    [
        ("topology.k8s.aws/network-node-layer-3", [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]),
        ("topology.k8s.aws/network-node-layer-2", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
        ("topology.k8s.aws/network-node-layer-1", [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]),
        ("topology.kubernetes.io/zone", [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]),
    ],
)
def test_the_network_of_simulated_nodes_is_a_tree(label: str, groups: list[list[int]]) -> None:
    members: dict[str, list[int]] = {}
    for number in range(10):
        members.setdefault(simulated.node(number)["metadata"]["labels"][label], []).append(number)

    assert list(members.values()) == groups


def test_control_planes_side_by_side_share_no_port_and_no_file() -> None:
    def words(root: str, endpoints: Endpoints) -> set[str]:
        first, second = programs(Path("/k"), Layout(Path(root)), endpoints, pods_reach_it=False)
        return {
            word.partition("=")[2] for program in first + second for word in program.argv if "/" in word or ":" in word
        }

    one = words("/one", Endpoints("127.0.0.1", 1, 2, 3, 4, 5, 6))
    two = words("/two", Endpoints("127.0.0.1", 11, 12, 13, 14, 15, 16))

    assert one & two == {"", "10.96.0.0/16", "https://kubernetes.default.svc.cluster.local"}


def test_the_nodes_configuration_names_no_file_outside_its_sandbox(tmp_path: Path) -> None:
    root = tmp_path / "a state"
    (root / "pki").mkdir(parents=True)
    (root / "config").mkdir()
    node.write_configuration(Layout(root), Endpoints("10.244.255.2"), Authority.new())

    for file in [*(root / "config").iterdir(), *(root / "cni").iterdir()]:
        assert str(tmp_path) not in file.read_text()
