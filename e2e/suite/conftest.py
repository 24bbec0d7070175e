# SPDX-License-Identifier: Apache-2.0
"""What several end-to-end tests share."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.interface import Cluster
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile
from e2e.definitions import remove, wait_until_established
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess, operator, write_kubeconfig
from tandem_operator.api.crd import DEFINITIONS
from tandem_operator.api.names import KIND
from tests.documents.written import Written, environment, written_for
from tests.manifests.checking import definitions

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server of its own with controllers, scheduler and simulated P5en nodes, that knows the CRDs. Needs no root."""
    if sys.platform != "linux":
        pytest.skip("the local control plane runs on Linux only")
    if os.environ.get("CLUSTER", "local") not in {"", "local"}:
        pytest.skip("tests of the API server bring their own, which CLUSTER does not name")
    cluster = LocalCluster(tmp_path_factory.mktemp("apiserver") / "state", Profile.CONTROL_PLANE, simulated_nodes=4)
    try:
        cluster.up()
        kubectl = Kubectl(cluster)
        kubectl.apply(*(each.manifest() for each in DEFINITIONS))
        wait_until_established(kubectl, *(each.name for each in DEFINITIONS))
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="session")
def kubeconfig(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rights as in the operator's table, so that every test here is also one of the table."""
    return write_kubeconfig(control_plane, "tandem-operator", tmp_path_factory.mktemp("operator") / "kubeconfig")


@pytest.fixture
def kubectl(control_plane: Cluster) -> Iterator[Kubectl]:
    """In a namespace of the test's own."""
    namespace = f"test-{next(_NUMBERS)}"
    Kubectl(control_plane).run("create", "namespace", namespace)
    kubectl = Kubectl(control_plane, namespace)
    yield kubectl
    # Before the next test: an operator that serves all namespaces would look at what this one left.
    kubectl.run("delete", KIND.lower(), "--all", "--wait")
    kubectl.run("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def replica(kubeconfig: Path, kubectl: Kubectl) -> Iterator[OperatorProcess]:
    """One that serves all namespaces."""
    with operator(kubeconfig, kubectl.namespace, "only") as replica:
        yield replica


@pytest.fixture(scope="module")
def known(control_plane: Cluster) -> Iterator[None]:
    """Definitions of Karpenter, KEDA, the Gateway API, Argo CD and monitors, with the rules that only a server evaluates."""
    kubectl = Kubectl(control_plane)
    names = [each["metadata"]["name"] for each in definitions()]
    kubectl.apply(*definitions())
    try:
        wait_until_established(kubectl, *names)
        yield
    finally:
        remove(kubectl, *names)


@pytest.fixture
def written(
    request: pytest.FixtureRequest, control_plane: Cluster, kubectl: Kubectl, tmp_path: Path
) -> Iterator[Written]:
    """The commands of the documents that the test has to run, for the API server and in the namespace of the test."""
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = kubectl.namespace
    path = tmp_path / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    with written_for(request.node.nodeid, environment(tmp_path, KUBECONFIG=str(path))) as written:
        yield written
