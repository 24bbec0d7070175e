# SPDX-License-Identifier: Apache-2.0
"""A node that runs pods: what a workload may count on."""

import urllib.request
from pathlib import Path

import pytest

from e2e.cluster.local import cgroups, packages, pause_image, processes
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.cluster.workloads import is_ready, pod, pod_for_gpus, web_servers

pytestmark = pytest.mark.cluster

HOST_FOLDERS = ("/usr", "/lib", "/lib64", "/bin")
"""What a program of the host needs to run in a pod whose image has next to nothing."""


@pytest.fixture(scope="module")
def web(kubectl: Kubectl) -> str:
    """Two servers behind the Services `web` and `web-peers`."""
    kubectl.apply(*web_servers("web", replicas=2))
    wait_until("the servers", lambda: all(is_ready(kubectl, f"web-{number}") for number in (0, 1)), timeout=60)
    return "web"


@pytest.fixture(scope="module")
def client(kubectl: Kubectl, web: str) -> str:
    """A pod with the host's programs, for one with a C library to resolve names as engines do."""
    volumes = [{"name": path[1:], "hostPath": {"path": path}} for path in HOST_FOLDERS]
    manifest = pod("client", "exec /busybox sleep infinity", volumes=volumes)
    manifest["spec"]["containers"][0]["volumeMounts"] = [
        {"name": path[1:], "mountPath": path, "readOnly": True} for path in HOST_FOLDERS
    ]
    kubectl.apply(manifest)
    wait_until("the client", lambda: is_ready(kubectl, "client"), timeout=60)
    return "client"


def answer(kubectl: Kubectl, client: str, host: str) -> str:
    """What a server says to a request from the client's pod."""
    request = f"exec 3<>/dev/tcp/{host}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && tail -n 1 <&3"
    return kubectl.run("exec", client, "--", "/bin/bash", "-c", request).strip()


def test_a_pod_runs_and_its_output_and_its_shell_are_reachable(kubectl: Kubectl) -> None:
    kubectl.apply(pod("speaker", "echo spoken; exec /busybox sleep infinity"))
    wait_until("the speaker", lambda: is_ready(kubectl, "speaker"), timeout=60)

    assert kubectl.run("logs", "speaker") == "spoken\n"
    assert kubectl.run("exec", "speaker", "--", "/busybox", "echo", "from inside") == "from inside\n"


def test_a_service_answers_in_a_pod_by_its_name_from_each_of_its_pods(kubectl: Kubectl, web: str, client: str) -> None:
    names = {answer(kubectl, client, web) for _ in range(20)}

    assert names == {"web-0", "web-1"}


def test_a_pod_is_reached_by_its_own_name(kubectl: Kubectl, web: str, client: str) -> None:
    kubectl.run("exec", client, "--", "/bin/bash", "-c", ": >/dev/tcp/web-1.web-peers.default.svc.cluster.local/8080")


def test_pods_that_are_not_ready_have_names_too(kubectl: Kubectl, client: str) -> None:
    kubectl.apply(*web_servers("starting", replicas=1, are_ready=False))

    def has_name() -> bool:
        found = kubectl.run("exec", client, "--", "/bin/bash", "-c", "getent hosts starting-0.starting-peers || true")
        return "starting-0.starting-peers.default.svc.cluster.local" in found

    wait_until("the name", has_name, timeout=30, every=1)
    assert not is_ready(kubectl, "starting-0")


def test_a_service_and_a_pod_answer_on_their_addresses_from_the_host(kubectl: Kubectl, web: str) -> None:
    service = (kubectl.get("service", web) or {})["spec"]["clusterIP"]
    address = (kubectl.get("pod", "web-0") or {})["status"]["podIP"]

    with urllib.request.urlopen(f"http://{service}/", timeout=5) as response:
        assert response.read().strip() in {b"web-0", b"web-1"}
    with urllib.request.urlopen(f"http://{address}:8080/", timeout=5) as response:
        assert response.read().strip() == b"web-0"


def test_a_pod_reaches_itself_through_its_service(kubectl: Kubectl) -> None:
    kubectl.apply(*web_servers("alone", replicas=1))
    wait_until("the server", lambda: is_ready(kubectl, "alone-0"), timeout=60)
    service = (kubectl.get("service", "alone") or {})["spec"]["clusterIP"]

    said = kubectl.run(
        "exec", "alone-0", "--", "/busybox", "sh", "-c", f"/busybox nc {service} 80 < /dev/null; echo $?"
    )

    assert said.strip() == "0"


def test_an_image_from_an_archive_can_be_run(node: LocalCluster, kubectl: Kubectl, tmp_path: Path) -> None:
    archive = tmp_path / "an archive.tar"
    pause_image.write(archive, packages.BUSYBOX, reference="tandem.dev/loaded:2")

    node.load_image(archive)

    manifest = pod("loaded", "exec /busybox sleep infinity")
    manifest["spec"]["containers"][0] |= {"image": "tandem.dev/loaded:2", "imagePullPolicy": "Never"}
    kubectl.apply(manifest)
    wait_until("the pod of the loaded image", lambda: is_ready(kubectl, "loaded"), timeout=30)


def test_a_change_of_an_annotation_reaches_the_file_in_the_pod(kubectl: Kubectl) -> None:
    item = {"path": "peers", "fieldRef": {"fieldPath": "metadata.annotations['tandem.dev/peers']"}}
    manifest = pod(
        "reader", "exec /busybox sleep infinity", volumes=[{"name": "own", "downwardAPI": {"items": [item]}}]
    )
    manifest["metadata"]["annotations"] = {"tandem.dev/peers": "one"}
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/own"}]
    kubectl.apply(manifest)
    wait_until("the reader", lambda: is_ready(kubectl, "reader"), timeout=60)

    kubectl.run("annotate", "pod", "reader", "--overwrite", "tandem.dev/peers=two")

    def reads_two() -> bool:
        return kubectl.run("exec", "reader", "--", "/busybox", "cat", "/own/peers") == "two"

    wait_until("the file to change", reads_two, timeout=30)


def test_what_runs_in_pods_gets_its_share_of_the_processors_beside_other_work(node: LocalCluster) -> None:
    groups = [hierarchy / cgroups.GROUP for hierarchy in cgroups.hierarchies(Path("/proc/self/mounts").read_text())]
    weights = {
        int((group / name).read_text()) / usual
        for group in groups
        for name, usual in (("cpu.shares", 1024), ("cpu.weight", 100))
        if (group / name).exists()
    }

    assert weights
    assert min(weights) >= 2


def test_only_pods_that_ask_for_it_come_to_a_simulated_node(kubectl: Kubectl) -> None:
    kubectl.apply(pod_for_gpus("asks", gpus=8), pod_for_gpus("asks-not", gpus=8, tolerates=False))
    wait_until("the pod that asks", lambda: is_ready(kubectl, "asks"), timeout=30)

    assert (kubectl.get("pod", "asks") or {})["spec"]["nodeName"].startswith("p5en-")
    assert "nodeName" not in (kubectl.get("pod", "asks-not") or {})["spec"]


def test_the_facts_are_those_of_this_machine(node: LocalCluster) -> None:
    facts = node.facts()

    assert (facts.nodes, facts.simulated_nodes) == (1, 2)
    assert facts.cores >= 1
    assert facts.memory > 2**30
    assert facts.can_mount_host_paths
    assert facts.is_local


def test_bringing_it_up_again_starts_no_program_anew(node: LocalCluster) -> None:
    before = set(processes.running(node.kubeconfig.parent))

    node.up()

    # Kubelet and containerd have children that come and go; a program that was started anew would have none of the ids.
    still = before & set(processes.running(node.kubeconfig.parent))
    assert {each.name for each in still} == {each.name for each in before}
    assert [part for part in node.status() if not part.is_well] == []
