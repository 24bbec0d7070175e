# SPDX-License-Identifier: Apache-2.0
"""Roll-outs on a real API server with its controllers, with simulated nodes, whose pods are ready at once unless they fit nowhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess, operator
from e2e.suite.served import a_resource, condition, engines, tables, wait_for
from tandem_operator.api.names import KIND, REVISION_LABEL, ROLE_LABEL

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

POOLS = {
    "prefill": {"replicas": 1, "parallelism": {"tensor": 2}},
    "decode": {"replicas": 2, "parallelism": {"tensor": 2}},
}
FIRST, SECOND, THIRD = ({"image": f"vllm/vllm-openai:v0.{minor}.0"} for minor in (32, 33, 34))


def resource(engine: Mapping[str, Any] = FIRST, **spec: Any) -> dict[str, Any]:
    return a_resource(engine=engine, **{**POOLS, **spec})


def revisions(kubectl: Kubectl) -> set[str]:
    """Of the pods that there are."""
    return {pod["metadata"]["labels"][REVISION_LABEL] for pod in engines(kubectl)}


def only(kubectl: Kubectl) -> str:
    (found,) = revisions(kubectl)
    return str(found)


def uids(kubectl: Kubectl) -> set[str]:
    return {pod["metadata"]["uid"] for pod in engines(kubectl)}


def records(kubectl: Kubectl) -> set[str]:
    """Names of the ControllerRevisions that the operator made."""
    found = kubectl.list("controllerrevision", "app.kubernetes.io/component=revision")
    return {str(each["metadata"]["name"]) for each in found}


def status(kubectl: Kubectl) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (kubectl.get(KIND.lower(), "qwen") or {}).get("status", {}).get("revision", {})
    return found


def wait_for_change(kubectl: Kubectl, former: str) -> str:
    wait_until("the new revision alone", lambda: revisions(kubectl) and former not in revisions(kubectl), timeout=90)
    wait_for(kubectl, "Ready")
    return only(kubectl)


def test_a_change_goes_from_one_revision_to_the_next_and_leaves_nothing_of_it(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    budget = {"gpuBudget": 10}
    kubectl.apply(resource(scaling=budget))
    wait_for(kubectl, "Ready")
    before = only(kubectl)
    assert records(kubectl) == {f"qwen-{before}"}
    kubectl.apply(resource(SECOND, scaling=budget))
    most, fewest = 0, 3

    def is_done() -> bool:
        nonlocal most, fewest
        pods = engines(kubectl)
        most = max(most, len(pods))
        ready = [pod for pod in pods if "tandem.dev/routable" in pod["metadata"]["labels"]]
        fewest = min(fewest, len([pod for pod in ready if pod["metadata"]["labels"][ROLE_LABEL] == "decode"]))
        return before not in {pod["metadata"]["labels"][REVISION_LABEL] for pod in pods}

    wait_until("the new revision alone", is_done, timeout=90)
    wait_for(kubectl, "Ready")
    after = only(kubectl)
    assert most <= 5, "two engines of two GPUs beyond those wanted is all that the budget has room for"
    assert fewest >= 2
    assert records(kubectl) == {f"qwen-{after}"}
    sets = {each["metadata"]["name"] for each in kubectl.list("statefulset")}
    assert sets == {f"qwen-p-{after[:5]}", f"qwen-d-{after[:5]}"}
    assert status(kubectl) == {"current": after, "next": ""}
    names = {pod["metadata"]["name"] for pod in engines(kubectl)}
    for table in tables(kubectl).values():
        assert {peer.pod for peer in table.peers} <= names
        assert {peer.revision for peer in table.peers} <= {after}


def test_what_cannot_run_is_rolled_back_after_its_deadline_and_says_why(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    pace = {"progressDeadline": "5s"}
    kubectl.apply(resource(rollout=pace))
    wait_for(kubectl, "Ready")
    before, pods = only(kubectl), uids(kubectl)
    nowhere = {"nodeSelector": {"nowhere": "true"}}
    kubectl.apply(resource(rollout=pace, placement=nowhere))
    wait_until("a second revision", lambda: len(revisions(kubectl)) == 2, timeout=30)
    wait_for(kubectl, "Degraded", reason="RolledBack")
    wait_until("the first revision alone", lambda: revisions(kubectl) == {before}, timeout=60)
    assert "no engine became ready in 5s: pod qwen-" in condition(kubectl, "Degraded")["message"]
    assert uids(kubectl) == pods, "none of them was touched"
    found = [event["reason"] for event in kubectl.list("events.v1.") if event["involvedObject"]["kind"] == KIND]
    assert "RolledBack" in found
    kubectl.apply(resource(rollout=pace))
    wait_for(kubectl, "Ready")
    assert uids(kubectl) == pods


def test_a_pause_holds_a_change_back_and_an_edit_back_needs_no_new_engine(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(resource())
    wait_for(kubectl, "Ready")
    before, pods = only(kubectl), uids(kubectl)
    kubectl.apply(resource(SECOND, rollout={"paused": True}))
    wait_for(kubectl, "Progressing", "False", reason="RolloutPaused")
    assert revisions(kubectl) == {before}
    assert status(kubectl)["current"] == before
    assert status(kubectl)["next"] not in ("", before)
    kubectl.apply(resource())
    wait_for(kubectl, "Ready")
    assert uids(kubectl) == pods


def test_an_operator_that_is_killed_in_the_midst_of_a_roll_out_is_followed_by_one_that_ends_it(
    kubectl: Kubectl, kubeconfig: Path
) -> None:
    kubectl.apply(resource())
    with operator(kubeconfig, kubectl.namespace, "first") as first:
        wait_for(kubectl, "Ready")
        before = only(kubectl)
        kubectl.apply(resource(SECOND))
        wait_until("the new revision's first engine", lambda: len(revisions(kubectl)) == 2, timeout=30)
        first.kill()
    kubectl.apply(resource(THIRD))
    with operator(kubeconfig, kubectl.namespace, "second"):
        wait_for_change(kubectl, before)
        wait_until("the revision between to be gone", lambda: len(records(kubectl)) == 1, timeout=60)
    (image,) = {each["image"] for pod in engines(kubectl) for each in pod["spec"]["containers"]}
    assert image == THIRD["image"]


def test_what_needs_no_new_engine_restarts_none(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(resource())
    wait_for(kubectl, "Ready")
    pods = uids(kubectl)
    written_out = {**FIRST, "args": []}
    everywhere = {"spec": {"tolerations": [{"operator": "Exists"}]}}
    kubectl.apply(
        resource(written_out, frontDoor={"podTemplate": everywhere, "replicas": 2}, scaling={"gpuBudget": 64})
    )
    wait_until(
        "two front doors", lambda: (kubectl.get("deployment", "qwen") or {})["spec"]["replicas"] == 2, timeout=30
    )
    wait_for(kubectl, "Ready")
    assert uids(kubectl) == pods
