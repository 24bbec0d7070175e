# SPDX-License-Identifier: Apache-2.0
import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.status import ConditionStatus, ConditionType, Reason
from tandem_operator.kubectl.views.cause import Cause
from tandem_operator.kubectl.views.explain import explain
from tandem_operator.kubectl.views.remedies import next_command
from tests.builders import a_deployment, a_node, a_pod, a_ready_pod, a_resource, a_set
from tests.kubectl.builders import NOT_READY, READY, a_condition, an_event, seen, with_conditions

LABEL = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"


def only(causes: tuple[Cause, ...]) -> Cause:
    (cause,) = causes
    return cause


def test_a_resource_that_is_ready_has_no_causes_and_nothing_to_do() -> None:
    explanation = explain(seen(with_conditions(READY), [a_ready_pod()]))
    assert (explanation.ready, explanation.causes, explanation.next) == (True, (), None)


def test_a_resource_that_nobody_looked_at_leads_to_the_operator() -> None:
    explanation = explain(seen(a_resource()))
    assert (explanation.ready, explanation.reason) == (False, "NotLookedAt")
    assert only(explanation.causes).subject == "operator"
    assert "part-of=tandem" in (explanation.next or "")


def test_a_change_that_nobody_looked_at_is_not_called_ready() -> None:
    explanation = explain(seen(with_conditions(READY).of_generation(3)))
    assert not explanation.ready
    assert "generation 1 of the resource, which is of generation 3" in only(explanation.causes).message


def test_an_invalid_spec_leads_to_its_correction() -> None:
    invalid = a_condition(ConditionType.SPEC_VALID, ConditionStatus.FALSE, Reason.INVALID, "spec.prefill: no")
    explanation = explain(seen(with_conditions(NOT_READY, invalid)))
    assert only(explanation.causes).message == "spec.prefill: no"
    assert explanation.next == "kubectl --namespace models edit pdi qwen"


def test_a_crash_is_told_with_its_events_and_the_log_of_the_process_that_ended() -> None:
    pod = (
        a_pod()
        .on_node("node-a")
        .with_container(
            state={"waiting": {"reason": "CrashLoopBackOff"}},
            last={"terminated": {"exitCode": 1, "reason": "Error", "message": "no space for KV"}},
            restarts=4,
        )
    )
    degraded = a_condition(ConditionType.DEGRADED, ConditionStatus.TRUE, Reason.POD_FAILING)
    events = [an_event("Pod", "qwen-decode-0", "BackOff", "back-off"), an_event("Pod", "other", "BackOff", "not ours")]
    explanation = explain(seen(with_conditions(NOT_READY, degraded), [pod], events=events))
    cause = only(explanation.causes)
    assert (cause.subject, cause.reason) == ("pod qwen-decode-0", Reason.POD_FAILING)
    assert "no space for KV" in cause.message
    assert [each.message for each in cause.because] == ["back-off"]
    assert explanation.next == "kubectl --namespace models logs qwen-decode-0 --container engine --previous"


def test_a_pod_without_a_node_is_traced_to_what_no_node_offers() -> None:
    manifest = a_pod().with_condition("PodScheduled", "False", "0/1 nodes are available: Insufficient nvidia.com/gpu.")
    pod = manifest.build()
    pod["spec"]["nodeSelector"] = {LABEL: "p5en.48xlarge"}
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "8"}}
    given = seen(with_conditions(NOT_READY), [type(manifest)(pod)], [a_node().with_label(LABEL, "p5en.48xlarge")])
    cause = only(explain(given).causes)
    assert cause.reason == Reason.UNSCHEDULABLE
    assert only(cause.because).reason == Reason.DEVICE_PLUGIN_MISSING
    assert explain(given).next == "kubectl tandem doctor"


def test_a_pod_that_no_node_is_meant_for_says_which_label_is_wanted() -> None:
    manifest = a_pod().with_condition("PodScheduled", "False", "0/1 nodes are available")
    pod = manifest.build()
    pod["spec"]["nodeSelector"] = {LABEL: "p5en.48xlarge"}
    given = seen(with_conditions(NOT_READY), [type(manifest)(pod)], [a_node()])
    assert only(only(explain(given).causes).because).reason == "NoSuchNode"


def test_an_engine_that_loads_its_model_is_waited_for_with_its_log() -> None:
    explanation = explain(seen(with_conditions(NOT_READY), [a_pod().on_node("node-a").running()]))
    assert only(explanation.causes).reason == "Starting"
    assert "loads the model" in only(explanation.causes).message
    assert explanation.next == "kubectl --namespace models logs qwen-decode-0 --container engine --follow"


def test_a_node_that_does_not_answer_is_the_cause_of_its_engine() -> None:
    given = seen(with_conditions(NOT_READY), [a_ready_pod().on_node("node-a")], [a_node().not_ready()])
    cause = only(explain(given).causes)
    assert (cause.reason, cause.next) == ("NodeNotReady", "kubectl describe node node-a")


def test_pods_that_are_not_made_are_traced_to_the_set_and_its_events() -> None:
    sets = {Role.DECODE: a_set(Role.DECODE)}
    events = [an_event("StatefulSet", "qwen-decode", "FailedCreate", "exceeded quota")]
    cause = only(explain(seen(with_conditions(NOT_READY), sets=sets, events=events)).causes)
    assert (cause.subject, cause.reason) == ("statefulset qwen-decode", "PodsMissing")
    assert only(cause.because).message == "exceeded quota"


def test_a_front_door_without_pods_leads_to_its_deployment() -> None:
    starting = a_condition(ConditionType.AVAILABLE, ConditionStatus.FALSE, Reason.FRONT_DOOR_STARTING)
    cause = only(explain(seen(with_conditions(NOT_READY, starting), front_door=a_deployment(available=0))).causes)
    assert cause.next == "kubectl --namespace models describe deployment qwen"


def test_engines_that_fail_come_before_engines_that_start() -> None:
    failing = a_pod(Role.DECODE, 1).on_node("node-a").with_container(state={"waiting": {"reason": "ErrImagePull"}})
    given = seen(with_conditions(NOT_READY), [a_pod(Role.DECODE, 0).on_node("node-a").running(), failing])
    assert [cause.subject for cause in explain(given).causes] == ["pod qwen-decode-1", "pod qwen-decode-0"]


def test_the_newest_events_come_first_and_each_once() -> None:
    events = [an_event("Pod", "qwen-decode-0", "Old", "a", at="2026-01-01T01:00:00Z")]
    events += [an_event("Pod", "qwen-decode-0", "New", "b", at=f"2026-01-01T0{hour}:00:00Z") for hour in (0, 3)]
    given = seen(with_conditions(NOT_READY), [a_pod().on_node("node-a").running()], events=events)
    assert [each.reason for each in only(explain(given).causes).because] == ["New", "Old"]


def test_kv_that_does_not_move_is_worth_a_look_though_the_resource_is_ready() -> None:
    bad = a_condition(ConditionType.KV_TRANSFER_VERIFIED, ConditionStatus.FALSE, Reason.NO_PEER, "no prefill")
    explanation = explain(seen(with_conditions(READY, bad), [a_ready_pod()]))
    assert explanation.ready
    assert only(explanation.causes).reason == Reason.NO_PEER
    assert "logs" in (explanation.next or "")


FINE = {
    *(Reason.ENGINES_READY, Reason.SERVING, Reason.SETTLED, Reason.HEALTHY, Reason.VALID, Reason.AS_ASKED),
    *(Reason.VERIFIED, Reason.FABRIC_AS_ASKED, Reason.RESTARTED),
}
NOT_SHOWN = {
    *(Reason.NOT_VERIFIED_YET, Reason.VERIFICATION_OFF, Reason.NOT_WITH_NIXL_PULL, Reason.KEY_REQUIRED),
    *(Reason.CONVERSATION_REFUSED, Reason.INCONCLUSIVE, Reason.FABRIC_NOT_REPORTED),
}
TOLD_BY_ENGINES = {
    *(Reason.ENGINES_STARTING, Reason.NO_PREFILL, Reason.NO_DECODE, Reason.FRONT_DOOR_STARTING),
    *(Reason.SCALING_DOWN, Reason.ROLLING_OUT, Reason.SCALED_TO_ZERO),
}
ONLY_A_WARNING = {Reason.ISOLATION_LOST}


@pytest.mark.parametrize("reason", sorted(set(Reason) - FINE - NOT_SHOWN - TOLD_BY_ENGINES - ONLY_A_WARNING))
def test_each_reason_for_which_something_is_wrong_has_a_next_command(reason: Reason) -> None:
    command = next_command(reason, "models", "qwen")
    assert command is not None
    assert command.startswith("kubectl ")
    assert "{" not in command


def test_a_reason_of_a_newer_operator_has_no_command_and_does_no_harm() -> None:
    assert next_command("Unheard", "models", "qwen") is None
