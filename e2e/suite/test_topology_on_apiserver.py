# SPDX-License-Identifier: Apache-2.0
"""What the operator's process tells pods of each other on a real API server, with real StatefulSets and simulated nodes."""

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, engines, hold, tables, wait_for
from tandem_connector.contract.types import EngineState, pod_of

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

TENSOR = {"parallelism": {"tensor": 4}}
"""Two pods fit on one of the four nodes."""


def uid(kubectl: Kubectl, pod: str) -> str:
    return next(str(each["metadata"]["uid"]) for each in engines(kubectl) if each["metadata"]["name"] == pod)


def partners(kubectl: Kubectl) -> dict[str, set[str]]:
    """By pod, those of the other role that it knows."""
    return {
        name: {peer.pod for peer in table.peers if f"-{peer.role}-" not in name}
        for name, table in tables(kubectl).items()
    }


def test_decode_engines_work_with_as_many_prefill_engines_as_are_wanted(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    pools = {"prefill": {**TENSOR, "replicas": 4}, "decode": {**TENSOR, "replicas": 4}}
    kubectl.apply(a_resource(**pools, transfer={"peersPerDecode": 2}))
    wait_for(kubectl, "Ready")
    wait_until("all to have two", lambda: {len(peers) for peers in partners(kubectl).values()} == {2}, timeout=30)
    known = {(name, peer) for name, peers in partners(kubectl).items() for peer in peers}
    assert known == {(peer, name) for name, peer in known}
    kubectl.apply(a_resource(**pools, transfer={"peersPerDecode": 1}))
    wait_until("all to have one", lambda: {len(peers) for peers in partners(kubectl).values()} == {1}, timeout=30)


def test_a_pod_that_is_deleted_drains_to_its_heir_and_is_gone_when_it_is(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource(decode={"parallelism": {"tensor": 8}, "replicas": 2}))
    wait_for(kubectl, "Ready")
    hold(kubectl, "qwen-decode-1", "tandem.dev/held-by-a-test")
    ends, stays = uid(kubectl, "qwen-decode-1"), uid(kubectl, "qwen-decode-0")
    heir = wait_until("the pod to have an heir", lambda: tables(kubectl)["qwen-decode-1"].heir, timeout=30)
    assert pod_of(heir) == stays
    kubectl.run("delete", "pod", "qwen-decode-1", "--wait=false")

    def drains() -> bool:
        drain = tables(kubectl)["qwen-decode-1"].drain
        return drain is not None and drain.successor == heir

    wait_until("the pod to drain to the other", drains, timeout=30)
    for other in ("qwen-decode-0", "qwen-prefill-0"):
        (seen,) = [peer for peer in tables(kubectl)[other].peers if pod_of(peer.engine) == ends]
        assert seen.state is EngineState.DRAINING
    hold(kubectl, "qwen-decode-1")

    def is_gone() -> bool:
        return all(ends in tables(kubectl)[other].gone for other in ("qwen-decode-0", "qwen-prefill-0"))

    wait_until("the pod to be gone", is_gone, timeout=30)
    wait_until("the new pod to be known", lambda: len(tables(kubectl)["qwen-prefill-0"].peers) == 2, timeout=30)
    assert ends not in {pod_of(peer.engine) for peer in tables(kubectl)["qwen-decode-0"].peers}


def test_pods_whose_set_is_deleted_without_them_are_not_gone(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    before = uid(kubectl, "qwen-prefill-0")
    kubectl.run("delete", "statefulset", "qwen-prefill", "--cascade=orphan")
    wait_until("the set to be back", lambda: kubectl.get("statefulset", "qwen-prefill") is not None, timeout=30)
    wait_for(kubectl, "Ready")
    assert uid(kubectl, "qwen-prefill-0") == before
    (peer,) = tables(kubectl)["qwen-decode-0"].peers
    assert pod_of(peer.engine) == before
    assert tables(kubectl)["qwen-decode-0"].gone == ()
