# SPDX-License-Identifier: Apache-2.0
"""What several end-to-end tests share."""

import os
import sys
from collections.abc import Iterator

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile
from e2e.kubectl import Kubectl
from tandem_operator.api.crd import CRD_NAME, definition


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server of its own with controllers, scheduler and simulated P5en nodes, that knows the CRD. Needs no root."""
    if sys.platform != "linux":
        pytest.skip("the local control plane runs on Linux only")
    if os.environ.get("CLUSTER", "local") not in {"", "local"}:
        pytest.skip("tests of the API server bring their own, which CLUSTER does not name")
    cluster = LocalCluster(tmp_path_factory.mktemp("apiserver") / "state", Profile.CONTROL_PLANE, simulated_nodes=4)
    try:
        cluster.up()
        kubectl = Kubectl(cluster)
        kubectl.apply(definition())
        kubectl.run("wait", "--for=condition=Established", f"crd/{CRD_NAME}", "--timeout=30s")
        yield cluster
    finally:
        cluster.down()
