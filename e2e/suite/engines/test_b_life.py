# SPDX-License-Identifier: Apache-2.0
"""The resource is edited, the operator dies, the resource goes: the pods follow, stay, and go."""

import json

import pytest

from e2e.cluster.progress import wait_until
from e2e.conversation import held
from e2e.engine.model import MODEL_NAME
from e2e.exchange.numbers import value_of
from e2e.installation import ENGINE_PORT, NAMESPACE, engine_pods, front_door
from e2e.kubectl import Kubectl, KubectlError
from e2e.ready import wait_until_ready
from e2e.suite.engines.conftest import Deployment
from e2e.suite.engines.test_a_conversation import BLOCK, peer_table

ELSEWHERE = "Elsewhere, you hold what goes."
"""Another system prompt than every other conversation has, so that they have no block in common."""
TOLD_ELSEWHERE = " ".join(f"session {number * number} went back to prefill-{number % 5};" for number in range(40))
OWNED_KINDS = (
    "statefulsets,deployments,replicasets,pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings,"
    "endpointslices"
)


def uids_and_restarts(deployment: Deployment) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in engine_pods(deployment.kubectl, deployment.name)
    }


def only_new(deployment: Deployment, selector: str, old: set[str]) -> bool:
    items = deployment.kubectl.list(OWNED_KINDS, selector)
    kinds, uids = {item["kind"] for item in items}, {item["metadata"]["uid"] for item in items}
    return {"StatefulSet", "Deployment", "Service"} <= kinds and not old & uids


def patch(deployment: Deployment, spec: dict[str, object]) -> None:
    deployment.kubectl.run("patch", "pdi", deployment.name, "--type", "merge", "-p", json.dumps({"spec": spec}))


def test_killing_both_operator_pods_does_not_touch_the_engines(deployment: Deployment) -> None:
    before = uids_and_restarts(deployment)
    operator = Kubectl(deployment.cluster, NAMESPACE)

    operator.run("delete", "pods", "-l", "app.kubernetes.io/name=tandem", "--grace-period=0", "--force")
    operator.run("rollout", "status", "deployment", "--timeout=120s", timeout=150)
    # An edit that needs no new engine shows that the new operator is at work.
    patch(deployment, {"frontDoor": {"service": {"annotations": {"example.com/edited": "yes"}}}})
    wait_until(
        "the new operator to act",
        lambda: (
            (deployment.kubectl.get("service", deployment.name) or {})["metadata"]
            .get("annotations", {})
            .get("example.com/edited")
        ),
        120,
    )

    assert uids_and_restarts(deployment) == before


def moved_to(deployment: Deployment, pod: str) -> float:
    """Blocks that other engines handed over to this one."""
    metrics = deployment.kubectl.pod_http(pod, ENGINE_PORT, "/metrics")
    return value_of(metrics, "tandem_blocks_received_total", purpose="move")


def test_another_decode_replica_is_known_to_prefill_and_hands_over_what_it_holds_when_it_goes(
    deployment: Deployment,
) -> None:
    before = uids_and_restarts(deployment)
    (prefill,) = engine_pods(deployment.kubectl, deployment.name, "prefill")

    patch(deployment, {"decode": {"replicas": 2}})
    wait_until("two decode pods", lambda: len(engine_pods(deployment.kubectl, deployment.name, "decode")) == 2, 60)
    wait_until_ready(deployment.kubectl, deployment.name)

    table = wait_until(
        "prefill to know both",
        lambda: next((t for t in [peer_table(deployment, prefill["metadata"]["name"])] if len(t.peers) == 2), None),
        60,
    )
    assert {peer.state for peer in table.peers} == {"ready"}
    assert before.items() <= uids_and_restarts(deployment).items()

    stays, goes = sorted(pod["metadata"]["name"] for pod in engine_pods(deployment.kubectl, deployment.name, "decode"))
    with deployment.kubectl.forwarded(f"pod/{goes}", ENGINE_PORT) as url:
        (turn,) = held(url, MODEL_NAME, session="goes", script=(TOLD_ELSEWHERE,), system=ELSEWHERE)
    before_move = moved_to(deployment, stays)

    patch(deployment, {"decode": {"replicas": 1}})
    wait_until("one decode pod", lambda: len(engine_pods(deployment.kubectl, deployment.name, "decode")) == 1, 180)
    assert moved_to(deployment, stays) - before_move == (turn.prompt_tokens + turn.output_tokens - 1) // BLOCK
    wait_until("prefill to know one", lambda: len(peer_table(deployment, prefill["metadata"]["name"]).peers) == 1, 60)


def test_an_edited_argument_reaches_the_engines_of_both_roles(deployment: Deployment) -> None:
    before = set(uids_and_restarts(deployment))
    arguments = [*deployment.resource["spec"]["engine"]["args"], "--max-num-seqs=7"]

    patch(deployment, {"engine": {"args": arguments}})
    wait_until(
        "two new pods",
        lambda: (
            len(pods := engine_pods(deployment.kubectl, deployment.name)) == 2
            and not before & {pod["metadata"]["uid"] for pod in pods}
        ),
        300,
    )
    wait_until_ready(deployment.kubectl, deployment.name)

    for pod in engine_pods(deployment.kubectl, deployment.name):
        command = deployment.kubectl.run(
            "exec", pod["metadata"]["name"], "-c", "engine", "--", "cat", "/proc/1/cmdline"
        )
        assert "--max-num-seqs=7" in command.split("\0")


def test_a_bad_edit_is_refused_with_the_field_and_the_remedy_and_nothing_changes(deployment: Deployment) -> None:
    before = uids_and_restarts(deployment)

    with pytest.raises(
        KubectlError, match=r"spec\.engine\.args: Forbidden: must not contain --port=1: Tandem needs it as it is"
    ):
        patch(deployment, {"engine": {"args": ["--port=1"]}})

    assert uids_and_restarts(deployment) == before


def test_deleting_the_resource_leaves_nothing_and_its_name_can_be_used_at_once(deployment: Deployment) -> None:
    selector = f"tandem.dev/resource={deployment.name}"
    first = {item["metadata"]["uid"] for item in deployment.kubectl.list(OWNED_KINDS, selector)}
    assert first

    deployment.kubectl.delete("pdi", deployment.name, "--wait=true")
    deployment.kubectl.apply(deployment.resource)
    wait_until("the children of the new resource, and of it only", lambda: only_new(deployment, selector, first), 240)

    deployment.kubectl.delete("pdi", deployment.name, "--wait=true")
    wait_until("everything to be gone", lambda: not deployment.kubectl.list(OWNED_KINDS, selector), 240)
    with (
        pytest.raises(Exception, match="does not exist"),
        front_door(deployment.cluster, deployment.kubectl, deployment.name),
    ):
        pass
