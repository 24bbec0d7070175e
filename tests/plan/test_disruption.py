# SPDX-License-Identifier: Apache-2.0
"""What evictions may take at one time, and that no budget holds a drain up for ever."""

from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, a_pod, a_ready_pod, a_resource, observed
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder


def budgets(*pods: PodBuilder, resource: ResourceBuilder | None = None) -> dict[str, Any]:
    """At noon, by name: how many of its pods may be away."""
    objects = plan(observed(resource, pods), DEFAULTS).objects
    made = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
    return {each["metadata"]["name"]: each["spec"]["maxUnavailable"] for each in made}


def test_one_engine_of_each_role_may_be_evicted_at_a_time() -> None:
    assert budgets(*(a_ready_pod(role, ordinal) for role in Role for ordinal in range(3))) == {
        "qwen-prefill": 1,
        "qwen-decode": 1,
    }


def test_an_engine_that_starts_is_waited_for() -> None:
    starts = a_pod(Role.DECODE, 1).unready_since("2026-01-01T11:30:01Z")

    assert budgets(a_ready_pod(Role.DECODE, 0), starts)["qwen-decode"] == 1


def test_an_engine_that_has_not_been_ready_for_half_an_hour_is_waited_for_no_longer() -> None:
    lost = a_pod(Role.DECODE, 1).unready_since("2026-01-01T11:30:00Z")

    assert budgets(a_ready_pod(Role.DECODE, 0), lost) == {"qwen-prefill": 1, "qwen-decode": 2}


def test_a_pod_for_which_no_node_was_found_in_half_an_hour_is_waited_for_no_longer() -> None:
    nowhere = a_pod(Role.PREFILL, 1).created("2026-01-01T11:30:00Z")

    assert budgets(a_ready_pod(Role.PREFILL, 0), nowhere) == {"qwen-prefill": 2, "qwen-decode": 1}


def test_a_pod_that_is_being_deleted_is_not_counted_twice() -> None:
    ends = a_pod(Role.DECODE, 1).unready_since("2026-01-01T11:00:00Z").terminating()

    assert budgets(a_ready_pod(Role.DECODE, 0), ends)["qwen-decode"] == 1


def test_the_front_door_has_a_budget_where_it_has_several_pods() -> None:
    assert "qwen" not in budgets(resource=a_resource().with_spec("frontDoor", "replicas", value=1))
    assert budgets(resource=a_resource().with_spec("frontDoor", "replicas", value=2))["qwen"] == 1


def test_a_front_door_that_is_off_has_none() -> None:
    off = a_resource().with_spec("frontDoor", value={"enabled": False, "replicas": 2})

    assert set(budgets(resource=off)) == {"qwen-prefill", "qwen-decode"}
