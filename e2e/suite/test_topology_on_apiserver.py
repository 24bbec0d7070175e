# SPDX-License-Identifier: Apache-2.0
"""What the operator's process tells pods of each other on a real API server, with real StatefulSets and simulated nodes."""

import json
import time

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, engines, hold, tables, wait_for
from tandem_connector.contract.types import EngineState, pod_of
from tandem_operator.api.names import PEERS_ANNOTATION, TELL_AGAIN_ANNOTATION
from tandem_operator.plan.telling import SOON

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

TENSOR = {"parallelism": {"tensor": 4}}
"""Two pods fit on one of the four nodes."""


def uid(kubectl: Kubectl, pod: str) -> str:
    return next(str(each["metadata"]["uid"]) for each in engines(kubectl) if each["metadata"]["name"] == pod)


def uid_of_set(kubectl: Kubectl) -> str | None:
    """Of the prefill engines' StatefulSet; None while there is none."""
    found = kubectl.get("statefulset", "qwen-prefill")
    return str(found["metadata"]["uid"]) if found else None


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
    before, deleted = uid(kubectl, "qwen-prefill-0"), uid_of_set(kubectl)
    kubectl.run("delete", "statefulset", "qwen-prefill", "--cascade=orphan", "--wait=false")
    # Kubernetes' garbage collector takes the pods from the set before it goes, and has taken minutes for that.
    wait_until("another set", lambda: uid_of_set(kubectl) not in (deleted, None), timeout=600)
    wait_for(kubectl, "Ready")
    assert uid(kubectl, "qwen-prefill-0") == before
    (peer,) = tables(kubectl)["qwen-decode-0"].peers
    assert pod_of(peer.engine) == before
    assert tables(kubectl)["qwen-decode-0"].gone == ()


def test_a_pod_that_is_told_twice_within_seconds_is_written_once_more_and_then_left_alone(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    wait_until("nothing to be repeated", lambda: not awaiting(kubectl), timeout=30)

    for status, state in (("False", EngineState.STARTING), ("True", EngineState.READY)):
        set_ready(kubectl, "qwen-prefill-0", status)
        wait_until(f"the pod to be told as {state}", lambda: told_of_prefill(kubectl) is state, timeout=30)  # noqa: B023 -- before the next
    assert "qwen-decode-0" in awaiting(kubectl)
    table, writes = annotation(kubectl), replica.metric("tandem_applies_total", kind="Pod")

    wait_until("the repetition", lambda: not awaiting(kubectl), timeout=30)
    assert annotation(kubectl) == table
    assert 1 <= replica.metric("tandem_applies_total", kind="Pod") - writes <= 2, "of the two pods"
    writes = replica.metric("tandem_applies_total", kind="Pod")
    time.sleep(SOON.total_seconds() + 2)
    assert replica.metric("tandem_applies_total", kind="Pod") == writes


def awaiting(kubectl: Kubectl) -> set[str]:
    """The pods that are to be written once more."""
    pods = engines(kubectl)
    return {each["metadata"]["name"] for each in pods if TELL_AGAIN_ANNOTATION in each["metadata"]["annotations"]}


def annotation(kubectl: Kubectl) -> str:
    pod = kubectl.get("pod", "qwen-decode-0") or {}
    return str(pod["metadata"]["annotations"][PEERS_ANNOTATION])


def told_of_prefill(kubectl: Kubectl) -> EngineState:
    (peer,) = tables(kubectl)["qwen-decode-0"].peers
    return peer.state


def set_ready(kubectl: Kubectl, pod: str, status: str) -> None:
    conditions = [{"type": kind, "status": status} for kind in ("ContainersReady", "Ready")]
    patch = json.dumps({"status": {"conditions": conditions}})
    kubectl.run("patch", "pod", pod, "--subresource=status", "--type=strategic", "-p", patch)
