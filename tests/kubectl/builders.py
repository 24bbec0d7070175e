# SPDX-License-Identifier: Apache-2.0
"""What the kubectl plugin reads of one resource."""

from collections.abc import Iterable
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.status import Condition, ConditionStatus, ConditionType, Status
from tandem_operator.kubectl.views.seen import Seen
from tests.builders import NOW, a_ready_pod, a_resource, observed, settled
from tests.builders.nodes import NodeBuilder
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder


def a_condition(kind: ConditionType, status: ConditionStatus, reason: str, message: str = "words") -> Condition:
    return Condition(
        type=kind,
        status=status,
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason=reason,
        message=message,
    )


def with_conditions(*conditions: Condition, generation: int = 1, **status: Any) -> ResourceBuilder:
    return a_resource().with_status(Status(observed_generation=generation, conditions=conditions, **status))


NOT_READY = a_condition(ConditionType.READY, ConditionStatus.FALSE, "EnginesStarting", "1 of 2 engines are ready")
READY = a_condition(ConditionType.READY, ConditionStatus.TRUE, "EnginesReady", "all take requests")


def an_event(kind: str, name: str, reason: str, note: str, *, at: str = "2026-01-01T11:00:00Z") -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": at},
        "type": "Warning",
        "reason": reason,
        "note": note,
        "regarding": {"kind": kind, "name": name},
    }


def seen(
    resource: ResourceBuilder | None = None,
    pods: Iterable[PodBuilder] = (),
    nodes: Iterable[NodeBuilder] = (),
    events: Iterable[dict[str, Any]] = (),
    **more: Any,
) -> Seen:
    """Sets want no pods but those that there are, until told otherwise."""
    given = tuple(pods)
    found = observed(resource, given, nodes, **more)
    if "sets" not in more:
        for manifest in found.sets:
            manifest["spec"]["replicas"] = 0
    return Seen(found, tuple(events))


def two_of_each() -> Seen:
    """Two engines of each role, which have been told of each other."""
    pods = [a_ready_pod(role, ordinal).on_node("node-a") for role in Role for ordinal in (0, 1)]
    told = settled(observed(a_resource().with_prefill(2).with_decode(2), pods))
    return Seen(told)


__all__ = ["NOT_READY", "NOW", "READY", "a_condition", "an_event", "seen", "two_of_each", "with_conditions"]
