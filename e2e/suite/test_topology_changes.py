# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to an engine's pod is told to all that it concerns: what `make bench-topology` measures, with four engines."""

import asyncio
from collections import Counter

import pytest

from e2e.bench.topology import pods
from e2e.bench.topology.api import Api
from e2e.bench.topology.changes import Changer
from e2e.bench.topology.tables import Kind
from e2e.cluster.interface import Cluster
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, wait_for

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

TWO = {"parallelism": {"tensor": 4}, "replicas": 2}


async def changes(cluster: Cluster, resource: str) -> Counter[Kind]:
    """What was told while a pod was deleted, two were unready for a moment, and a node was lost and came back."""
    async with Api(cluster.kubeconfig) as api, pods.watched(api) as seen:
        seen.matching.told.clear()
        changer = Changer(api, seen, lambda pod: pod.resource == resource)
        await changer.make(3, at_once=1)
        await changer.lose_nodes(1)
        return Counter(told.change.kind for told in seen.matching.told)


def test_each_change_in_a_pod_or_its_node_is_told_to_all_that_it_concerns(
    control_plane: Cluster, kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource(prefill=TWO, decode=TWO))
    wait_for(kubectl, "Ready")
    told = asyncio.run(changes(control_plane, f"{kubectl.namespace}/qwen"))
    assert told[Kind.UNREADY] >= 2
    assert told[Kind.READY] >= 3, "those two, and the one in place of the deleted"
    assert told[Kind.GONE] == 1
    assert told[Kind.NODE_LOST] >= 1
