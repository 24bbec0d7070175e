# SPDX-License-Identifier: Apache-2.0
"""Local clusters in folders of their own, whose names have spaces."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.choice import default_state
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile
from e2e.kubectl import Kubectl

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing here is of use with another provider, and a node needs root."""
    for item in items:
        if HERE not in item.path.parents:
            continue
        # The first of them may have to build Kubernetes.
        item.add_marker(pytest.mark.timeout(1800))
        if os.environ.get("CLUSTER", "local") not in {"", "local"}:
            item.add_marker(pytest.mark.skip(reason="tests of the provider `local`, and CLUSTER names another"))
        elif item.get_closest_marker("cluster") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="a local node needs root: run `sudo make test`"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder for state folders."""
    return tmp_path_factory.mktemp("with a space")


@pytest.fixture(scope="module")
def no_other_node() -> None:
    """A machine has room for one node: one that the demo left is ended."""
    LocalCluster(default_state(os.environ)).down()


@pytest.fixture(scope="module")
def node(folder: Path, no_other_node: None) -> Iterator[LocalCluster]:
    """A cluster with a node and two simulated ones."""
    cluster = LocalCluster(folder / "a node", Profile.NODE, simulated_nodes=2)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="module")
def kubectl(node: LocalCluster) -> Kubectl:
    """Kubectl for the node's cluster."""
    return Kubectl(node)
