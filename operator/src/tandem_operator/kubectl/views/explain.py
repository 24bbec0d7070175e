# SPDX-License-Identifier: Apache-2.0
"""Why a resource is not Ready: the chain of causes, and the command to go on with.

The operator's conditions come first, since it has seen more than can be read at one time; under them what pods, nodes and events say.
"""

from collections.abc import Iterator

from tandem_operator.api.base import ApiModel
from tandem_operator.api.names import KIND
from tandem_operator.api.status import Condition, ConditionStatus, ConditionType, Reason
from tandem_operator.kubectl.views.cause import Cause, event_causes
from tandem_operator.kubectl.views.engine_causes import engine_causes, missing_engines
from tandem_operator.kubectl.views.remedies import next_command
from tandem_operator.kubectl.views.seen import Seen

_BAD_WHEN_FALSE = (ConditionType.SPEC_VALID, ConditionType.FABRIC_ACTIVE, ConditionType.KV_TRANSFER_VERIFIED)
_BAD_WHEN_TRUE = (ConditionType.DEGRADED, ConditionType.SCALING_LIMITED)
_TOLD_BY_PODS = frozenset({Reason.POD_FAILING, Reason.UNSCHEDULABLE})
"""Reasons of `Degraded` that only repeat what is told of single pods."""


class Explanation(ApiModel):
    """What was found about one resource."""

    namespace: str
    name: str
    ready: bool
    reason: str
    message: str
    causes: tuple[Cause, ...]
    """What comes first is what others may follow from. A resource that is ready may have some too: they are worth a look."""
    next: str | None
    """The command to go on with; None: there is nothing to do."""
    unread: tuple[str, ...]
    """What couldn't be read, and why."""


def explain(seen: Seen) -> Explanation:
    """Why the resource is not Ready, or that it is."""
    resource = seen.observed.resource
    ready = seen.conditions.get(ConditionType.READY)
    causes = tuple(_causes(seen))
    return Explanation(
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        ready=seen.is_ready,
        reason=ready.reason if ready else "NotLookedAt",
        message=ready.message if ready else "the operator hasn't looked at the resource yet",
        causes=causes,
        next=next((command for cause in causes if (command := cause.first_command())), None),
        unread=seen.unread,
    )


def _causes(seen: Seen) -> Iterator[Cause]:
    metadata = seen.observed.resource.metadata
    if metadata.deletion_timestamp:
        yield Cause(
            subject=f"resource {metadata.name}",
            reason="Deleting",
            message=f"it is being deleted since {metadata.deletion_timestamp}: its children go with it",
        )
        return
    if not seen.is_current:
        yield _unseen(seen)
    yield from (_of_condition(seen, each) for each in _bad(seen))
    yield from missing_engines(seen)
    yield from engine_causes(seen)
    yield from _front_door(seen)


def _unseen(seen: Seen) -> Cause:
    metadata, status = seen.observed.resource.metadata, seen.observed.resource.status
    known = f"generation {status.observed_generation}" if status else "no generation"
    return Cause(
        subject="operator",
        reason="NotLookedAt",
        message=f"it has looked at {known} of the resource, which is of generation {metadata.generation}:"
        " it is down, has no right to the namespace, or isn't told to serve it",
        next="kubectl get deployments,leases --all-namespaces --selector app.kubernetes.io/part-of=tandem",
    )


def _bad(seen: Seen) -> Iterator[Condition]:
    for kinds, status in ((_BAD_WHEN_FALSE, ConditionStatus.FALSE), (_BAD_WHEN_TRUE, ConditionStatus.TRUE)):
        for kind in kinds:
            condition = seen.conditions.get(kind)
            if condition and condition.status is status and not _is_told_by_pods(condition, seen):
                yield condition


def _is_told_by_pods(condition: Condition, seen: Seen) -> bool:
    """As long as there are pods to tell it."""
    return condition.type == ConditionType.DEGRADED and condition.reason in _TOLD_BY_PODS and bool(seen.pods)


def _of_condition(seen: Seen, condition: Condition) -> Cause:
    metadata = seen.observed.resource.metadata
    because: tuple[Cause, ...] = ()
    if condition.type in (ConditionType.SPEC_VALID, ConditionType.DEGRADED):
        warnings = seen.warnings_of(KIND, metadata.name)
        because = event_causes([each for each in warnings if each.get("reason") != condition.reason])
    return Cause(
        subject=f"condition {condition.type}",
        reason=condition.reason,
        message=condition.message,
        because=because,
        next=next_command(condition.reason, metadata.namespace, metadata.name),
    )


def _front_door(seen: Seen) -> Iterator[Cause]:
    condition = seen.conditions.get(ConditionType.AVAILABLE)
    if condition is None or condition.reason != Reason.FRONT_DOOR_STARTING:
        return
    metadata, deployment = seen.observed.resource.metadata, seen.observed.front_door
    name = deployment["metadata"]["name"] if deployment else metadata.name
    yield Cause(
        subject=f"deployment {name}",
        reason=condition.reason,
        message="none of its pods is available" if deployment else "the front door's Deployment isn't there",
        because=event_causes(seen.warnings_of("Deployment", name)),
        next=f"kubectl --namespace {metadata.namespace} describe deployment {name}",
    )
