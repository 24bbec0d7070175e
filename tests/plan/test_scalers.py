# SPDX-License-Identifier: Apache-2.0
"""Who decides a role's number of engines, and what scalers are told."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.scaler import ScalerStatus
from tandem_operator.api.status import ConditionType, Reason
from tandem_operator.plan.children import key_of
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Observed, Plan
from tests.builders import DEFAULTS, a_pod, a_ready_pod, a_resource, a_scaler, a_set, observed, settled
from tests.builders.resources import ResourceBuilder

P, D = Role.PREFILL, Role.DECODE
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def fixed(prefill: int = 1, decode: int = 1) -> ResourceBuilder:
    return a_resource().with_prefill(prefill).with_decode(decode)


def replicas(seen: Observed) -> dict[str, int]:
    """Engines of each set."""
    sets = [each for each in plan(seen, DEFAULTS).objects if each["kind"] == "StatefulSet"]
    return {each["metadata"]["name"].removeprefix("qwen-"): each["spec"]["replicas"] for each in sets}


def made(planned: Plan) -> dict[str, int]:
    """What new scalers ask for, by name."""
    return {each["metadata"]["name"]: each["spec"]["replicas"] for each in planned.new}


def scaled(resource: ResourceBuilder, *, prefill: int, decode: int, **more: Any) -> Observed:
    """With both scalers, which ask for these."""
    return observed(resource, scalers={P: a_scaler(P, prefill), D: a_scaler(D, decode)}, **more)


def statuses(seen: Observed) -> dict[Role, ScalerStatus]:
    return dict(outcome(seen, DEFAULTS, NOON).scalers)


def limits(seen: Observed) -> tuple[str, str, str]:
    """Status, reason and message of the resource's `ScalingLimited`."""
    found = outcome(seen, DEFAULTS, NOON).status.conditions
    (condition,) = [each for each in found if each.type == ConditionType.SCALING_LIMITED]
    return condition.status, condition.reason, condition.message


def test_a_number_in_the_spec_is_the_number_and_has_no_scaler() -> None:
    planned = plan(observed(fixed(2, 4)), DEFAULTS)
    assert replicas(observed(fixed(2, 4))) == {"prefill": 2, "decode": 4}
    assert [each for each in planned.objects if each["kind"] == "DisaggregatedInferenceScaler"] == []


def test_a_role_without_a_number_has_a_scaler_that_asks_for_one_engine_at_first() -> None:
    seen = observed(a_resource().with_decode(4), sets={})
    assert made(plan(seen, DEFAULTS)) == {"qwen-prefill": 1}
    assert replicas(seen) == {"prefill": 1, "decode": 4}


def test_the_scaler_decides_from_then_on() -> None:
    assert replicas(scaled(a_resource(), prefill=3, decode=7)) == {"prefill": 3, "decode": 7}


def test_a_scaler_is_applied_without_its_number_so_that_nobody_is_contradicted() -> None:
    planned = plan(scaled(a_resource(), prefill=3, decode=7), DEFAULTS)
    applied = [each for each in planned.objects if each["kind"] == "DisaggregatedInferenceScaler"]
    assert [each["metadata"]["name"] for each in applied] == ["qwen-prefill", "qwen-decode"]
    assert all("spec" not in each for each in applied)
    assert {key_of(each) for each in planned.new} == {key_of(each) for each in applied}


def test_beside_autoscaling_a_number_is_only_what_a_new_scaler_asks_for() -> None:
    resource = fixed(2, 1).with_spec("prefill", "autoscaling", value={"maxReplicas": 8})
    assert made(plan(observed(resource, sets={}), DEFAULTS)) == {"qwen-prefill": 2}
    assert replicas(observed(resource, scalers={P: a_scaler(P, 5)})) == {"prefill": 5, "decode": 1}


@pytest.mark.parametrize(
    ("bounds", "first"), [({}, 1), ({"minReplicas": 3}, 3), ({"maxReplicas": 0}, 0), ({"minReplicas": 0}, 1)]
)
def test_a_new_scaler_asks_for_what_its_bounds_allow(bounds: dict[str, int], first: int) -> None:
    resource = a_resource().with_decode(1).with_spec("prefill", "autoscaling", value=bounds)
    assert made(plan(observed(resource, sets={}), DEFAULTS)) == {"qwen-prefill": first}


def test_a_role_whose_number_was_fixed_so_far_keeps_it_when_a_scaler_takes_over() -> None:
    present = a_set(P)
    present["spec"]["replicas"] = 6
    seen = observed(a_resource().with_decode(1), sets={P: present, D: a_set(D)})
    assert made(plan(seen, DEFAULTS)) == {"qwen-prefill": 6}
    assert replicas(seen) == {"prefill": 6, "decode": 1}


def test_a_scaler_goes_when_the_spec_fixes_the_number() -> None:
    seen = settled(scaled(a_resource(), prefill=3, decode=7))
    seen = replace(seen, resource=a_resource().with_prefill(2).build())
    planned = plan(seen, DEFAULTS)
    assert [key.name for key in planned.obsolete] == ["qwen-prefill"]
    assert replicas(seen) == {"prefill": 2, "decode": 7}


def test_what_is_given_as_asked_for_is_no_limit() -> None:
    seen = scaled(a_resource(), prefill=3, decode=7)
    assert limits(seen) == ("False", Reason.AS_ASKED, "as many engines as were asked for")
    assert {status.conditions[0].status for status in statuses(seen).values()} == {"False"}


def test_bounds_of_autoscaling_hold_and_say_so_where_they_are_in_the_way() -> None:
    resource = a_resource().with_decode(1).with_spec("prefill", "autoscaling", value={"maxReplicas": 4})
    seen = observed(resource, scalers={P: a_scaler(P, 9)})
    assert replicas(seen)["prefill"] == 4
    assert limits(seen) == (
        "True",
        Reason.REPLICA_BOUNDS,
        "scaler qwen-prefill asks for 9 engines, above spec.prefill.autoscaling.maxReplicas, which is 4; raise that, or ask for fewer",
    )


def test_the_ratio_says_what_it_changed_to_the_scaler_of_the_role_that_it_changed() -> None:
    resource = a_resource().with_spec("scaling", value={"ratio": {"min": "1/2"}})
    seen = scaled(resource, prefill=1, decode=10)
    why = "prefill gets 5 engines for 1, as spec.scaling.ratio.min is 1/2 and decode gets 10"
    message = f"{why}; ask for fewer decode engines, or lower it"
    assert replicas(seen) == {"prefill": 5, "decode": 10}
    assert limits(seen) == ("True", Reason.RATIO_BOUNDS, message)
    found = statuses(seen)
    assert (found[P].conditions[0].status, found[P].conditions[0].message) == ("True", message)
    assert (found[D].conditions[0].status, found[D].conditions[0].reason) == ("False", "AsAsked")


@pytest.mark.parametrize(
    ("asked", "most", "words"),
    [
        ((9, 1), {}, "decode gets 5 engines for 1, as spec.scaling.ratio.max is 2/1 and prefill gets 9"),
        ((9, 1), {"decode": 3}, "prefill gets 6 engines for 9, as spec.scaling.ratio.max is 2/1 and decode gets 3"),
        ((1, 9), {"prefill": 2}, "decode gets 4 engines for 9, as spec.scaling.ratio.min is 1/2 and prefill gets 2"),
    ],
)
def test_the_ratio_names_the_bound_that_is_in_the_way(asked: tuple[int, int], most: dict[str, int], words: str) -> None:
    resource = a_resource().with_spec("scaling", value={"ratio": {"min": "1/2", "max": "2/1"}})
    for role, number in most.items():
        resource = resource.with_spec(role, "autoscaling", value={"maxReplicas": number})
    _, reason, message = limits(scaled(resource, prefill=asked[0], decode=asked[1]))
    assert reason == Reason.RATIO_BOUNDS
    assert words in message


def test_a_ratio_that_cannot_be_kept_gives_way_and_says_so_first() -> None:
    resource = a_resource().with_spec("scaling", value={"ratio": {"min": "1/4", "max": "1/4"}})
    resource = resource.with_spec("decode", "autoscaling", value={"maxReplicas": 2})
    seen = scaled(resource, prefill=1, decode=2)
    assert replicas(seen) == {"prefill": 1, "decode": 2}
    _, reason, message = limits(seen)
    assert reason == Reason.RATIO_UNREACHABLE
    assert "1 prefill and 2 decode engines don't keep spec.scaling.ratio (min 1/4, max 1/4)" in message


def with_budget(gpus: int) -> ResourceBuilder:
    return a_resource().on("p5en.48xlarge").with_tensor(8).with_spec("scaling", value={"gpuBudget": gpus})


def test_the_budget_is_shared_and_says_what_it_is_enough_for() -> None:
    seen = scaled(with_budget(48), prefill=4, decode=8)
    assert replicas(seen) == {"prefill": 2, "decode": 4}
    assert limits(seen) == (
        "True",
        Reason.GPU_BUDGET,
        "spec.scaling.gpuBudget is 48 GPUs, enough for 2 of 4 prefill and 4 of 8 decode engines; raise it, or ask for fewer",
    )
    assert {status.conditions[0].reason for status in statuses(seen).values()} == {"GpuBudget"}


def test_gpus_that_come_by_claims_count_too() -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    resource = with_budget(16).with_spec("accelerator", "resourceClaims", value=claims)
    assert replicas(scaled(resource, prefill=4, decode=4)) == {"prefill": 1, "decode": 1}


def test_a_role_grows_only_into_gpus_that_the_other_has_let_go() -> None:
    pods = (
        [a_pod(P, n) for n in range(2)] + [a_pod(P, n).terminating() for n in (2, 3)] + [a_pod(D, n) for n in range(4)]
    )
    ending = scaled(with_budget(64), prefill=2, decode=6, pods=pods)
    gone = scaled(with_budget(64), prefill=2, decode=6, pods=[*pods[:2], *pods[4:]])
    assert replicas(ending) == {"prefill": 2, "decode": 4}
    assert replicas(gone) == {"prefill": 2, "decode": 6}
    assert limits(ending)[0] == "False", "it takes a moment, and isn't refused"


def test_pods_that_a_set_is_about_to_make_hold_gpus_already() -> None:
    big = a_set(P)
    big["spec"]["replicas"] = 4
    seen = scaled(with_budget(64), prefill=2, decode=6, sets={P: big, D: a_set(D)})
    assert replicas(seen) == {"prefill": 2, "decode": 4}


def test_a_scaler_is_told_of_engines_that_are_not_ending_and_how_to_find_them() -> None:
    pods = [a_ready_pod(D).routable(), a_ready_pod(D, 1).routable().terminating(), a_pod(D, 2)]
    status = statuses(scaled(a_resource(), prefill=0, decode=2, pods=pods))[D]
    assert (status.replicas, status.ready_replicas) == (2, 1)
    assert status.selector == "tandem.dev/resource=qwen,tandem.dev/role=decode"
    assert status.observed_generation == 3


def test_the_time_of_a_scalers_transition_moves_only_when_its_status_does() -> None:
    seen = scaled(a_resource(), prefill=1, decode=1)
    status = statuses(seen)[P].model_dump(mode="json", by_alias=True)
    later = replace(seen, scalers={P: {**seen.scalers[P], "status": status}})
    found = outcome(later, DEFAULTS, datetime(2027, 1, 1, tzinfo=UTC)).scalers[P]
    assert found.conditions[0].last_transition_time == "2026-01-01T12:00:00Z"


def test_both_roles_at_zero_is_as_asked_and_unavailable() -> None:
    seen = scaled(a_resource(), prefill=0, decode=0)
    assert replicas(seen) == {"prefill": 0, "decode": 0}
    found = {each.type: each for each in outcome(seen, DEFAULTS, NOON).status.conditions}
    assert (found["Available"].status, found["Available"].reason) == ("False", "ScaledToZero")
    assert found["Available"].message == "no decode engines are asked for"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("prefill", "autoscaling"), {"minReplicas": 3, "maxReplicas": 2}, "spec.prefill.autoscaling.minReplicas"),
        (("scaling", "ratio"), {"min": "1/2", "max": "1/4"}, "spec.scaling.ratio.min"),
    ],
)
def test_bounds_that_contradict_each_other_are_named_should_they_come_through(
    path: tuple[str, ...], value: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidSpec) as error:
        plan(observed(a_resource().with_spec(*path, value=value)), DEFAULTS)
    assert error.value.field == field


def test_an_invalid_spec_leaves_scalers_as_they_are() -> None:
    problem = InvalidSpec("spec.decode.podTemplate", "must be a map")
    found = outcome(scaled(a_resource(), prefill=1, decode=1), DEFAULTS, NOON, problem)
    assert found.scalers == {}
