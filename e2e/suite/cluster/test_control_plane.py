# SPDX-License-Identifier: Apache-2.0
"""A control plane without a node: several at once, no root, nothing left."""

from pathlib import Path

import pytest

from e2e.cache import cache_root
from e2e.cluster.interface import ClusterError
from e2e.cluster.local import processes
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile
from e2e.cluster.progress import wait_until
from e2e.cluster.tools import run_helm
from e2e.exchange.numbers import value_of
from e2e.installation import CHART
from e2e.kubectl import Kubectl
from e2e.suite.cluster.workloads import is_ready, pod_for_gpus

pytestmark = pytest.mark.apiserver


def a_control_plane(state: Path, simulated_nodes: int = 0) -> LocalCluster:
    return LocalCluster(state, Profile.CONTROL_PLANE, simulated_nodes)


def a_config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_two_control_planes_run_side_by_side_and_leave_nothing(tmp_path: Path) -> None:
    one, other = (a_control_plane(tmp_path / name) for name in ("the first", "the second"))
    try:
        one.up()
        other.up()
        Kubectl(one).apply(a_config_map("in-one"))

        assert Kubectl(one).get("configmap", "in-one") is not None
        assert Kubectl(other).get("configmap", "in-one") is None
    finally:
        one.down()
        other.down()

    assert list(tmp_path.iterdir()) == []
    assert processes.running(tmp_path / "the first") == processes.running(tmp_path / "the second") == []


def test_neither_kubectl_nor_helm_writes_into_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TANDEM_CACHE", str(cache_root()))
    monkeypatch.setenv("HOME", str(home))
    cluster = a_control_plane(tmp_path / "state")
    try:
        cluster.up()
        Kubectl(cluster).apply(a_config_map("any"))
        installed = run_helm(cluster.kubeconfig, "default", "install", "tandem", str(CHART), "--dry-run=server")
    finally:
        cluster.down()

    assert installed.returncode == 0, installed.stderr
    assert list(home.rglob("*")) == []


def test_after_a_crash_it_comes_up_again_empty(tmp_path: Path) -> None:
    state = tmp_path / "state"
    cluster = a_control_plane(state)
    try:
        cluster.up()
        Kubectl(cluster).apply(a_config_map("before-the-crash"))
        before = processes.running(state)
        for name in {process.name for process in before} - {"kube-scheduler"}:
            processes.end(state, only=name)

        cluster.up()

        assert Kubectl(cluster).get("configmap", "before-the-crash") is None
        assert {each.name for each in processes.running(state)} == {each.name for each in before}
        assert {each.pid for each in processes.running(state)}.isdisjoint(each.pid for each in before)
    finally:
        cluster.down()


def test_bringing_it_up_again_changes_no_process(tmp_path: Path) -> None:
    cluster = a_control_plane(tmp_path / "state")
    try:
        cluster.up()
        before = processes.running(tmp_path / "state")

        cluster.up()

        assert processes.running(tmp_path / "state") == before
        assert all(part.is_well for part in cluster.status())
        with pytest.raises(ClusterError, match="is up with the profile control-plane, not node"):
            LocalCluster(tmp_path / "state", Profile.NODE).up()
    finally:
        cluster.down()


def test_simulated_nodes_come_and_go_with_their_number(tmp_path: Path) -> None:
    state = tmp_path / "state"
    try:
        a_control_plane(state, simulated_nodes=3).up()
        kubectl = Kubectl(a_control_plane(state))
        kubectl.apply(pod_for_gpus("on-simulated", gpus=8))
        wait_until("the pod", lambda: is_ready(kubectl, "on-simulated"), timeout=30)

        assert (kubectl.get("pod", "on-simulated") or {})["spec"]["nodeName"].startswith("p5en-")
        assert a_control_plane(state).facts().simulated_nodes == 3

        a_control_plane(state, simulated_nodes=1).up()

        assert [node["metadata"]["name"] for node in kubectl.list("nodes")] == ["p5en-0"]
    finally:
        a_control_plane(state).down()


def test_a_simulated_pod_is_deleted_once_so_that_none_which_takes_its_name_goes_with_it(tmp_path: Path) -> None:
    names = [f"pod-{number}" for number in range(20)]
    cluster = a_control_plane(tmp_path / "state", simulated_nodes=3)
    try:
        cluster.up()
        kubectl = Kubectl(cluster)
        kubectl.apply(*(pod_for_gpus(name, gpus=1) for name in names))
        wait_until("the pods", lambda: all(is_ready(kubectl, name) for name in names), timeout=30)
        kubectl.run("delete", "pod", *names)
        metrics = kubectl.run("get", "--raw", "/metrics")
    finally:
        cluster.down()

    by_us_and_by_the_simulated_kubelet = 2 * len(names)
    deleted = value_of(metrics, "apiserver_request_total", verb="DELETE", resource="pods")
    assert deleted == by_us_and_by_the_simulated_kubelet
