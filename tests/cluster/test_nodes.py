# SPDX-License-Identifier: Apache-2.0
"""The facts that are drawn from the nodes' objects."""

from typing import Any

import pytest

from e2e.cluster import nodes
from e2e.cluster.interface import ClusterError
from e2e.cluster.local import simulated


def a_node(name: str = "one", cpu: str = "4", memory: str = "16Gi", architecture: str = "amd64") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {"capacity": {"cpu": cpu, "memory": memory}, "nodeInfo": {"architecture": architecture}},
    }


def test_real_nodes_are_added_up_and_simulated_ones_counted_apart() -> None:
    facts = nodes.facts(
        [a_node(cpu="4", memory="16Gi"), a_node(cpu="2", memory="1024Ki"), simulated.node(0)],
        is_local=True,
        can_mount_host_paths=False,
    )

    assert (facts.nodes, facts.simulated_nodes) == (2, 1)
    assert (facts.cores, facts.memory) == (6, 16 * 2**30 + 2**20)
    assert (facts.architecture, facts.is_local, facts.can_mount_host_paths) == ("amd64", True, False)


def test_a_cluster_without_nodes_has_none_of_anything() -> None:
    facts = nodes.facts([], is_local=True, can_mount_host_paths=True)

    assert (facts.nodes, facts.cores, facts.memory, facts.architecture) == (0, 0, 0, "")


def test_nodes_of_different_architectures_are_refused() -> None:
    with pytest.raises(ClusterError, match=r"amd64.*arm64"):
        nodes.facts([a_node(), a_node(architecture="arm64")], is_local=False, can_mount_host_paths=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4), ("1500m", 1), ("1Ki", 1024), ("16Gi", 16 * 2**30), ("1.5G", 1_500_000_000), ("2Ti", 2 * 2**40)],
)
def test_a_quantity_is_read_as_kubernetes_writes_it(text: str, value: int) -> None:
    assert nodes.quantity(text) == value


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_only_the_condition_ready_makes_a_node_ready(status: str, ready: bool) -> None:
    other = {"type": "DiskPressure", "status": "True"}

    assert nodes.is_ready({"status": {"conditions": [other, {"type": "Ready", "status": status}]}}) is ready


def test_a_node_without_conditions_is_not_ready() -> None:
    assert not nodes.is_ready({"status": {}})
