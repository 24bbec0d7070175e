# SPDX-License-Identifier: Apache-2.0
"""A node goes without a trace, however it ended."""

from pathlib import Path

import pytest

from e2e.cluster.interface import ClusterError
from e2e.cluster.local import processes
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.cluster.traces import traces
from e2e.suite.cluster.workloads import is_ready, web_servers

pytestmark = pytest.mark.cluster


def run_a_pod(cluster: LocalCluster) -> None:
    kubectl = Kubectl(cluster)
    kubectl.apply(*web_servers("web", replicas=1))
    wait_until("the server", lambda: is_ready(kubectl, "web-0"), timeout=180)


def test_down_leaves_no_process_mount_link_rule_or_file(tmp_path: Path, no_other_node: None) -> None:
    before = traces()
    cluster = LocalCluster(tmp_path / "a node")
    try:
        cluster.up()
        run_a_pod(cluster)
        assert traces() != before
    finally:
        cluster.down()

    # Another program of this machine may start or end meanwhile; what is new is what matters.
    left = {kind: found - before[kind] for kind, found in traces().items()}
    assert left == {kind: set() for kind in before}
    assert processes.running(tmp_path / "a node") == []
    assert list(tmp_path.iterdir()) == []


def test_after_everything_was_killed_it_comes_up_again(tmp_path: Path, no_other_node: None) -> None:
    cluster = LocalCluster(tmp_path / "a node")
    try:
        cluster.up()
        run_a_pod(cluster)
        processes.end(tmp_path / "a node")

        cluster.up()

        assert Kubectl(cluster).get("statefulset", "web") is None
        run_a_pod(cluster)
    finally:
        cluster.down()


def test_after_one_program_was_killed_it_comes_up_again(tmp_path: Path, no_other_node: None) -> None:
    cluster = LocalCluster(tmp_path / "a node")
    try:
        cluster.up()
        processes.end(tmp_path / "a node", only="containerd")

        cluster.up()

        run_a_pod(cluster)
    finally:
        cluster.down()


def test_down_finds_a_node_whose_state_folder_is_gone(tmp_path: Path, no_other_node: None) -> None:
    before = traces()
    cluster = LocalCluster(tmp_path / "a node")
    try:
        cluster.up()
        # Moved rather than removed, as the kubelet would go on making files in it meanwhile.
        (tmp_path / "a node").rename(tmp_path / "moved")
    finally:
        cluster.down()

    assert {kind: found - before[kind] for kind, found in traces().items()} == {kind: set() for kind in before}


def test_a_second_node_is_refused_with_the_first_ones_folder(tmp_path: Path, no_other_node: None) -> None:
    first, second = (LocalCluster(tmp_path / name) for name in ("first", "second"))
    try:
        first.up()
        with pytest.raises(ClusterError, match=str(tmp_path / "first")):
            second.up()
        assert all(part.is_well for part in first.status())
    finally:
        second.down()
        first.down()
