# SPDX-License-Identifier: Apache-2.0
"""Status, conditions, events, and when to look again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.names import REVISION_LABEL
from tandem_operator.api.status import Condition, ConditionType, Reason, Status
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.types import ObjectKey, Observed, Outcome, Refusal, WantedKey
from tests.builders import DEFAULTS, TEMPLATE, a_deployment, a_pod, a_ready_pod, a_resource, a_set, observed
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.plan.made import template

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
P, D = Role.PREFILL, Role.DECODE
CURRENT = template(a_resource())["metadata"]["labels"][REVISION_LABEL]


def serving(role: Role, ordinal: int = 0) -> PodBuilder:
    """As the operator has left it: routable, of the newest template."""
    return a_ready_pod(role, ordinal).of_revision(CURRENT).of_template(TEMPLATE).routable()


def waiting(role: Role, reason: str, message: str = "") -> PodBuilder:
    return a_pod(role).of_template(TEMPLATE).with_container(state={"waiting": {"reason": reason, "message": message}})


ALL_WELL = observed(pods=[serving(P), serving(D)])


def after(
    seen: Observed, *, previous: Status | None = None, now: datetime = NOON, problem: InvalidSpec | None = None
) -> Outcome:
    resource = seen.resource.model_copy(update={"status": previous or seen.resource.status})
    return outcome(replace(seen, resource=resource), DEFAULTS, now, problem)


def conditions(found: Outcome) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in found.status.conditions}


def condition(found: Outcome, kind: ConditionType) -> Condition:
    (match,) = [each for each in found.status.conditions if each.type == kind]
    return match


def events(found: Outcome) -> list[tuple[str, bool]]:
    return [(event.reason, event.warning) for event in found.events]


def test_all_conditions_are_set_from_first_sight() -> None:
    found = after(observed(sets={}, front_door=None))
    assert conditions(found) == {
        "Ready": ("False", "NoDecodeReady"),
        "Available": ("False", "NoDecodeReady"),
        "Progressing": ("True", "RollingOut"),
        "Degraded": ("False", "Healthy"),
        "SpecValid": ("True", "Valid"),
        "FabricActive": ("Unknown", "FabricNotReported"),
        "KVTransferVerified": ("Unknown", "NotVerifiedYet"),
        "ScalingLimited": ("False", "AsAsked"),
    }
    assert events(found) == [("RollingOut", False)]


def test_a_resource_is_ready_when_all_that_it_wants_takes_requests() -> None:
    found = after(ALL_WELL)
    assert conditions(found) == {
        "Ready": ("True", "EnginesReady"),
        "Available": ("True", "Serving"),
        "Progressing": ("False", "Settled"),
        "Degraded": ("False", "Healthy"),
        "SpecValid": ("True", "Valid"),
        "FabricActive": ("Unknown", "FabricNotReported"),
        "KVTransferVerified": ("Unknown", "NotVerifiedYet"),
        "ScalingLimited": ("False", "AsAsked"),
    }
    assert found.again is None
    assert found.status.endpoint == "http://qwen.models.svc:8000"
    assert found.status.revision.current == CURRENT
    assert condition(found, ConditionType.READY).message == "1 prefill and 1 decode engines take requests"


def test_pods_are_counted_by_role() -> None:
    pods = [
        serving(P),
        serving(D),
        serving(D, 1).terminating(),
        a_pod(D, 2).of_revision(CURRENT).of_template(TEMPLATE),
        serving(D, 3).of_template("t0"),
        serving(D, 4).ended(),
    ]
    status = after(observed(a_resource().with_decode(4), pods)).status
    assert status.decode.model_dump() == {
        "replicas": 4,
        "ready": 2,
        "updated": 3,
        "draining": 1,
        "selector": "tandem.dev/resource=qwen,tandem.dev/role=decode",
    }
    assert (status.prefill.replicas, status.prefill.ready) == (1, 1)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (observed(a_resource().pulling(), [serving(D)]), Reason.NO_PREFILL),
        (observed(a_resource().pulling().with_prefill(0), [serving(D)]), Reason.SCALED_TO_ZERO),
        (observed(pods=[serving(P)]), Reason.NO_DECODE),
        (observed(a_resource().with_decode(0), [serving(P)]), Reason.SCALED_TO_ZERO),
        (observed(pods=[serving(P), serving(D)], front_door=a_deployment(available=0)), Reason.FRONT_DOOR_STARTING),
        (observed(pods=[serving(P), serving(D)], front_door=None), Reason.FRONT_DOOR_STARTING),
    ],
)
def test_it_is_unavailable_for_a_reason(seen: Observed, reason: Reason) -> None:
    found = conditions(after(seen))
    assert found["Available"] == ("False", reason)
    assert found["Ready"] == ("False", reason)


def test_with_push_decode_serves_without_prefill_and_is_not_all_that_is_wanted() -> None:
    found = after(observed(pods=[serving(D)]))
    assert conditions(found)["Available"] == ("True", "Serving")
    assert conditions(found)["Ready"] == ("False", "EnginesStarting")
    assert condition(found, ConditionType.AVAILABLE).message == "0 prefill and 1 decode engines take requests"
    assert condition(found, ConditionType.READY).message == "prefill: 0 of 1 engines ready"


def test_with_push_a_resource_may_want_no_prefill_at_all() -> None:
    found = conditions(after(observed(a_resource().with_prefill(0), [serving(D)])))
    assert (found["Available"], found["Ready"]) == (("True", "Serving"), ("True", "EnginesReady"))


def test_a_key_that_is_missing_degrades_with_what_to_do_about_it() -> None:
    wanted = WantedKey({"metadata": {"name": "keys"}}, "chat", generated=False)
    found = after(replace(observed(pods=[waiting(D, "ContainerCreating")]), missing_key=wanted))
    assert conditions(found)["Degraded"] == ("True", "KeyMissing")
    assert condition(found, ConditionType.DEGRADED).message == (
        "Secret keys, which spec.transfer.auth.secretRef names, does not exist, and engines wait for it: create it with a "
        "key file under chat, or remove spec.transfer.auth to have a key made"
    )
    assert ("KeyMissing", True) in events(found)


def test_without_a_front_door_engines_are_enough() -> None:
    resource = a_resource().with_spec("frontDoor", "enabled", value=False)
    found = conditions(after(observed(resource, [serving(P), serving(D)], front_door=None)))
    assert found["Available"] == ("True", "Serving")
    assert found["Ready"] == ("True", "EnginesReady")


def test_an_engine_without_the_label_takes_no_requests() -> None:
    unlabelled = a_ready_pod(D).of_revision(CURRENT).of_template(TEMPLATE)
    assert conditions(after(observed(pods=[serving(P), unlabelled])))["Available"] == ("False", "NoDecodeReady")


@pytest.mark.parametrize(
    ("seen", "reason", "message"),
    [
        (
            observed(a_resource().with_decode(3), [serving(P), serving(D)]),
            Reason.ENGINES_STARTING,
            "decode: 1 of 3 engines ready",
        ),
        (
            observed(a_resource().with_decode(2), [serving(P), serving(D), serving(D, 1).of_template("t0")]),
            Reason.ROLLING_OUT,
            "decode: 1 of 2 pods are of an older configuration",
        ),
        (
            observed(pods=[serving(P), serving(D)], sets={P: a_set(P), D: a_set(D, seen=False)}),
            Reason.ROLLING_OUT,
            "StatefulSet qwen-decode has just been applied",
        ),
        (
            observed(pods=[serving(P), serving(D), serving(D, 1)]),
            Reason.SCALING_DOWN,
            "decode: 2 engines, 1 wanted",
        ),
        (
            observed(pods=[serving(P), serving(D)], front_door=a_deployment(available=1, replicas=2)),
            Reason.FRONT_DOOR_STARTING,
            "Deployment qwen is being rolled out",
        ),
    ],
)
def test_it_progresses_and_is_not_ready_while_something_is_not_as_wanted(
    seen: Observed, reason: Reason, message: str
) -> None:
    found = after(seen)
    assert conditions(found)["Available"] == ("True", "Serving")
    assert conditions(found)["Progressing"] == ("True", reason)
    assert conditions(found)["Ready"] == ("False", reason)
    assert condition(found, ConditionType.PROGRESSING).message == message
    assert found.again == timedelta(seconds=15)


def test_engines_that_are_not_wanted_are_no_progress() -> None:
    nothing = a_resource().with_prefill(0).with_decode(0)
    found = conditions(after(observed(nothing)))
    assert found["Progressing"] == ("False", "Settled")
    assert found["Available"] == ("False", "ScaledToZero")


CRASHED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no NIXL"}}


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        (
            waiting(D, "ImagePullBackOff", "not found"),
            Reason.POD_FAILING,
            "pod qwen-decode-0, container engine: ImagePullBackOff: not found",
        ),
        (
            a_pod(D).with_container(state={"waiting": {"reason": "CrashLoopBackOff"}}, last=CRASHED, restarts=2),
            Reason.POD_FAILING,
            "pod qwen-decode-0, container engine: CrashLoopBackOff: last exit code 1 (Error): no NIXL",
        ),
        (
            a_pod(D).with_container(state={"running": {"startedAt": "x"}}, last=CRASHED, restarts=3),
            Reason.POD_FAILING,
            "pod qwen-decode-0, container engine: restarted 3 times: last exit code 1 (Error): no NIXL",
        ),
        (
            a_pod(D).with_condition("PodScheduled", "False", "0/3 nodes are available: insufficient hugepages-2Mi"),
            Reason.UNSCHEDULABLE,
            "pod qwen-decode-0: 0/3 nodes are available: insufficient hugepages-2Mi",
        ),
    ],
)
def test_a_pod_that_cannot_run_degrades_in_its_own_words(pod: PodBuilder, reason: Reason, message: str) -> None:
    found = after(observed(pods=[serving(P), pod.of_template(TEMPLATE)]))
    assert conditions(found)["Degraded"] == ("True", reason)
    assert condition(found, ConditionType.DEGRADED).message == message
    assert (reason, True) in events(found)


@pytest.mark.parametrize(
    "pod",
    [
        waiting(D, "ContainerCreating"),
        waiting(D, "PodInitializing"),
        a_pod(D).with_container(state={"running": {"startedAt": "x"}}, last=CRASHED, restarts=1),
        waiting(D, "CrashLoopBackOff").terminating(),
    ],
)
def test_a_pod_that_only_takes_its_time_does_not_degrade(pod: PodBuilder) -> None:
    assert conditions(after(observed(pods=[serving(P), pod])))["Degraded"] == ("False", "Healthy")


def test_a_failing_init_container_degrades_too() -> None:
    manifest = a_pod(D).build()
    state = {"waiting": {"reason": "ErrImageNeverPull", "message": "absent"}}
    manifest["status"]["initContainerStatuses"] = [{"name": "connector", "state": state}]
    found = after(observed(pods=[PodBuilder(manifest)]))
    message = condition(found, ConditionType.DEGRADED).message
    assert message == "pod qwen-decode-0, container connector: ErrImageNeverPull: absent"


@pytest.mark.parametrize(
    "words",
    [
        {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"},
        {"type": "Progressing", "status": "False", "message": "exceeded quota"},
    ],
)
def test_a_front_door_that_does_not_get_on_degrades(words: dict[str, str]) -> None:
    found = after(observed(pods=[serving(P), serving(D)], front_door=a_deployment(conditions=(words,))))
    assert conditions(found)["Degraded"] == ("True", "FrontDoorFailing")
    assert condition(found, ConditionType.DEGRADED).message == "front door: exceeded quota"


def refusal(*, immutable: bool, kind: str = "StatefulSet") -> Refusal:
    key = ObjectKey("apps/v1", kind, "qwen-decode")
    return Refusal(key=key, immutable=immutable, message="spec.serviceName: Forbidden")


def test_an_immutable_field_says_how_to_go_on() -> None:
    found = after(replace(ALL_WELL, refusals=(refusal(immutable=True),)))
    assert conditions(found)["Degraded"] == ("True", "ImmutableField")
    assert conditions(found)["Ready"] == ("False", "ImmutableField")
    message = condition(found, ConditionType.DEGRADED).message
    assert "kubectl delete statefulset qwen-decode --cascade=orphan" in message
    assert "spec.serviceName: Forbidden" in message
    assert found.again == timedelta(seconds=30)
    other = after(replace(ALL_WELL, refusals=(refusal(immutable=True, kind="RoleBinding"),)))
    assert "`kubectl delete rolebinding qwen-decode`" in condition(other, ConditionType.DEGRADED).message


def test_what_the_server_refused_is_shown_before_what_follows_from_it() -> None:
    pods = [serving(P), waiting(D, "ErrImagePull")]
    found = after(observed(pods=pods, refusals=(refusal(immutable=False),)))
    assert conditions(found)["Degraded"] == ("True", "ApplyFailed")
    assert condition(found, ConditionType.DEGRADED).message == (
        "StatefulSet qwen-decode was refused: spec.serviceName: Forbidden; "
        "pod qwen-decode-0, container engine: ErrImagePull"
    )


def test_many_troubles_are_shown_as_three_and_a_number() -> None:
    pods = [a_pod(D, n).with_container(state={"waiting": {"reason": "ErrImagePull"}}) for n in range(5)]
    assert condition(after(observed(pods=pods)), ConditionType.DEGRADED).message.endswith("; and 2 more")


PROBLEM = InvalidSpec("spec.decode.podTemplate.spec", "must be a map")


def test_an_invalid_spec_is_named_and_what_runs_goes_on() -> None:
    before = after(ALL_WELL).status
    found = after(ALL_WELL, previous=before, problem=PROBLEM)
    assert conditions(found) == {
        "Ready": ("False", "Invalid"),
        "Available": ("True", "Serving"),
        "Progressing": ("False", "Invalid"),
        "Degraded": ("True", "Invalid"),
        "SpecValid": ("False", "Invalid"),
        "FabricActive": ("Unknown", "Invalid"),
        "KVTransferVerified": ("Unknown", "Invalid"),
        "ScalingLimited": ("False", "Invalid"),
    }
    assert condition(found, ConditionType.SPEC_VALID).message == "spec.decode.podTemplate.spec: must be a map"
    assert events(found) == [("Invalid", True)], "one cause, one event"
    assert (found.status.endpoint, found.status.revision) == (before.endpoint, before.revision)


def p5en(**accelerator: Any) -> ResourceBuilder:
    return a_resource().with_tensor(4).with_spec("accelerator", value={"instanceType": "p5en.48xlarge", **accelerator})


def test_lost_isolation_is_a_warning_and_not_a_refusal() -> None:
    found = after(observed(p5en(privileged=True)))
    assert conditions(found)["SpecValid"] == ("True", "IsolationLost")
    assert "8 of 16 EFA devices" in condition(found, ConditionType.SPEC_VALID).message
    assert ("IsolationLost", True) in events(found)
    assert conditions(after(observed(p5en(privileged=True).with_tensor(8))))["SpecValid"] == ("True", "Valid")
    assert conditions(after(observed(p5en())))["SpecValid"] == ("True", "Valid")


def test_the_time_of_a_transition_moves_only_when_the_status_does() -> None:
    first = after(observed(pods=[serving(P)])).status
    second = after(observed(a_resource().with_decode(2), [serving(P)]), previous=first, now=NOON + timedelta(hours=1))
    third = after(ALL_WELL, previous=second.status, now=NOON + timedelta(hours=2))
    kinds = (ConditionType.READY, ConditionType.SPEC_VALID)
    assert [condition(second, kind).last_transition_time for kind in kinds] == ["2026-01-01T12:00:00Z"] * 2
    assert [condition(third, kind).last_transition_time for kind in kinds] == [
        "2026-01-01T14:00:00Z",
        "2026-01-01T12:00:00Z",
    ]


def test_status_and_conditions_carry_the_generation_that_they_are_about() -> None:
    status = after(observed(a_resource().of_generation(7))).status
    assert status.observed_generation == 7
    assert {each.observed_generation for each in status.conditions} == {7}


def test_events_tell_of_turns_and_not_of_states() -> None:
    starting = after(observed(pods=[serving(P)]))
    ready = after(ALL_WELL, previous=starting.status)
    assert events(ready) == [("Serving", False), ("EnginesReady", False)]
    assert events(after(ALL_WELL, previous=ready.status)) == []
    lost = after(observed(pods=[serving(P)]), previous=ready.status)
    assert events(lost) == [("NoDecodeReady", True), ("EnginesStarting", False)]
    failing = after(observed(pods=[serving(P), waiting(D, "ErrImagePull")]), previous=lost.status)
    assert events(failing) == [("PodFailing", True)]
    stuck = observed(pods=[serving(P), a_pod(D).with_condition("PodScheduled", "False", "no node")])
    unschedulable = after(stuck, previous=failing.status)
    assert events(unschedulable) == [("Unschedulable", True)], "as bad as before, for another reason"
    well = after(ALL_WELL, previous=unschedulable.status)
    assert events(well) == [("Healthy", False), ("Serving", False), ("EnginesReady", False)]


def test_no_condition_is_forgotten() -> None:
    assert conditions(after(ALL_WELL)).keys() == set(ConditionType)
