# SPDX-License-Identifier: Apache-2.0
"""What to report about one resource, and when to look at it again."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from tandem_connector.contract.types import Role
from tandem_operator.api.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    Quarantined,
    Reason,
    Revision,
    RoleStatus,
    Status,
)
from tandem_operator.api.transfer import Protocol
from tandem_operator.plan.conditions import Facts, conditions, findings
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.fabric import fabric_active
from tandem_operator.plan.finding import Finding
from tandem_operator.plan.front_door import endpoint
from tandem_operator.plan.mismatches import mismatches
from tandem_operator.plan.offers import shortages
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.progress import next_step, pause, role_status
from tandem_operator.plan.proof import kv_transfer_verified
from tandem_operator.plan.quarantine import events_of, held_in, next_restart, quarantined, troubles_of
from tandem_operator.plan.requests import ends_in, refusal_of, running_request, verification
from tandem_operator.plan.resolve import protocol_of
from tandem_operator.plan.resolved import PushTransfer, Resolved
from tandem_operator.plan.rollout import Rollout, rollout
from tandem_operator.plan.scalers import scaler_statuses
from tandem_operator.plan.sets import engine_sets
from tandem_operator.plan.stamp import stamp
from tandem_operator.plan.targets import targets
from tandem_operator.plan.telling import next_repetition
from tandem_operator.plan.topology import summary
from tandem_operator.plan.troubles import (
    Trouble,
    front_door_trouble,
    key_trouble,
    pod_trouble,
    refusal_trouble,
    worst_first,
)
from tandem_operator.plan.types import Defaults, EventType, Observed, Outcome
from tandem_operator.plan.unfinished import rollout_trouble

AGAIN_AFTER_REFUSAL: Final = timedelta(seconds=30)
AT_ONCE: Final = timedelta(seconds=0.2)
AGAIN_WHILE_PROGRESSING: Final = timedelta(seconds=15)
"""Watches report what happens; looking again only covers an event that was lost."""

NEEDED_ROLES: Final = {
    # Decode that finds no prefill computes the prompt itself.
    Protocol.PUSH: frozenset({Role.DECODE}),
    Protocol.NIXL_PULL: frozenset(Role),
}
"""Roles without which no turn is served."""

_BEFORE_ALL: Final = {
    ConditionType.READY: (ConditionStatus.FALSE, ""),
    ConditionType.AVAILABLE: (ConditionStatus.FALSE, ""),
    ConditionType.PROGRESSING: (ConditionStatus.FALSE, ""),
    ConditionType.DEGRADED: (ConditionStatus.FALSE, Reason.HEALTHY),
    ConditionType.SPEC_VALID: (ConditionStatus.TRUE, Reason.VALID),
    ConditionType.FABRIC_ACTIVE: (ConditionStatus.UNKNOWN, Reason.FABRIC_NOT_REPORTED),
    ConditionType.KV_TRANSFER_VERIFIED: (ConditionStatus.UNKNOWN, Reason.NOT_VERIFIED_YET),
    ConditionType.SCALING_LIMITED: (ConditionStatus.FALSE, Reason.AS_ASKED),
}
"""What a resource without a status is taken to have been, so that its first sight is no transition by itself."""
_TOLD_FIRST: Final = (
    ConditionType.SPEC_VALID,
    ConditionType.DEGRADED,
    ConditionType.AVAILABLE,
    ConditionType.FABRIC_ACTIVE,
    ConditionType.KV_TRANSFER_VERIFIED,
    ConditionType.SCALING_LIMITED,
    ConditionType.PROGRESSING,
    ConditionType.READY,
)
_TOLD_WHEN_TRUE: Final = frozenset({ConditionType.READY, ConditionType.PROGRESSING, ConditionType.SCALING_LIMITED})
"""Their end is told by the others."""
_TOLD_WHEN_KNOWN: Final = frozenset({ConditionType.FABRIC_ACTIVE, ConditionType.KV_TRANSFER_VERIFIED})
"""That it can't be told is no news."""


def outcome(observed: Observed, defaults: Defaults, now: datetime, problem: InvalidSpec | None = None) -> Outcome:
    """Status, events and the time of the next look, after the plan has been carried out.

    Args:
        observed: the resource with its previous status; sets, pods and front door as they are after applying.
        defaults: the same as for `plan`.
        now: with a time zone.
        problem: what `plan` raised, if it did: children are then left as they are, and counted as they are.
    """
    pods = engine_pods(observed)
    course = None if problem else rollout(observed, pods, defaults)
    resolved = course.resolved if course else None
    previous = observed.resource.status or Status()
    revision = course.wanted.name if course else previous.revision.next or previous.revision.current
    roles = {role: role_status(observed, role, pods, revision) for role in Role}
    step = next_step(observed, course, roles) if course else None
    quarantine = _quarantine(course, observed, previous, pods, now)
    fabric, verified = _shown(course, [pod for pod in pods if pod.uid not in held_in(quarantine)])
    facts = Facts(
        roles=roles,
        needed=NEEDED_ROLES[protocol_of(observed.resource.spec)],
        front_door_up=_front_door_up(observed, resolved),
        resolved=resolved,
        problem=problem,
        step=step,
        pause=pause(course) if course else None,
        troubles=worst_first(chain(_troubles(observed, pods, course, problem), troubles_of(quarantine))),
        limitations=course.sized.limitations if course else (),
        fabric=fabric,
        verified=verified,
    )
    described = _described(course, pods) if course else []
    requested = verification(observed.resource, described, now, problem)
    status = _status(observed, pods, course, facts, now).model_copy(
        update={"quarantined": quarantine, "verification": requested}
    )
    return Outcome(
        status=status,
        events=(
            *events_of(previous.quarantined, quarantine),
            *refusal_of(previous.verification, requested),
            *_events(previous.conditions, status.conditions),
        ),
        again=_sooner(
            _again(observed, pods, now, progresses=step is not None, is_carried_out=problem is None),
            _until_quarantine(previous.quarantined, quarantine, now),
            ends_in(requested, now),
        ),
        scalers=scaler_statuses(observed, course.sized, roles, now) if course else {},
        targets=targets(course.resolved, described, running_request(requested)) if course else (),
    )


def _described(course: Rollout, pods: Sequence[EnginePod]) -> list[EnginePod]:
    """Engines that are as the spec says: of others it isn't known what they serve, and from how many tokens on they ask."""
    return [pod for pod in pods if pod.revision == course.wanted.name]


def _again(
    observed: Observed, pods: Sequence[EnginePod], now: datetime, *, progresses: bool, is_carried_out: bool
) -> timedelta | None:
    if observed.refusals:
        return AGAIN_AFTER_REFUSAL
    reasons = (AGAIN_WHILE_PROGRESSING if progresses else None, next_repetition(pods, now) if is_carried_out else None)
    return _sooner(*reasons)


def _sooner(*times: timedelta | None) -> timedelta | None:
    return min(filter(None, times), default=None)


def _status(
    observed: Observed, pods: Sequence[EnginePod], course: Rollout | None, facts: Facts, now: datetime
) -> Status:
    generation = observed.resource.metadata.generation
    previous = observed.resource.status or Status()
    roles: Mapping[Role, RoleStatus] = facts.roles
    return Status(
        observed_generation=generation,
        conditions=conditions(findings(facts), previous.conditions, generation, now),
        prefill=roles[Role.PREFILL],
        decode=roles[Role.DECODE],
        topology=summary(observed, pods),
        endpoint=endpoint(course.resolved) if course else previous.endpoint,
        revision=_revision(course, previous.revision, now) if course else previous.revision,
    )


def _revision(course: Rollout, previous: Revision, now: datetime) -> Revision:
    current, following = course.target.name, course.wanted.name if course.is_held_back else ""
    if course.left:
        current, following = course.left[-1].name, course.target.name
    if not following:
        return Revision(current=current)
    since = previous.since if following == previous.next else stamp(now)
    return Revision(current=current, next=following, since=since)


def _quarantine(
    course: Rollout | None, observed: Observed, previous: Status, pods: Sequence[EnginePod], now: datetime
) -> tuple[Quarantined, ...]:
    if course is None:
        return previous.quarantined
    resolved = course.resolved
    verified = resolved.verifying is not None and isinstance(resolved.transfer, PushTransfer)
    return quarantined(previous.quarantined, pods, engine_sets(observed), now) if verified else ()


def _until_quarantine(
    previous: Sequence[Quarantined], current: Sequence[Quarantined], now: datetime
) -> timedelta | None:
    """When there is something to do about it: at once for whoever has just come into it, or was let go."""
    if held_in(previous) != held_in(current):
        return AT_ONCE
    due = next_restart(current)
    # An eviction that wasn't allowed is tried again.
    return max(due - now, AGAIN_WHILE_PROGRESSING) if due else None


def _shown(course: Rollout | None, pods: Sequence[EnginePod]) -> tuple[Finding, Finding]:
    """What the engines of the revision that there are to be show."""
    if course is None:
        invalid = Finding(None, Reason.INVALID, "nothing is tried until the spec is corrected")
        return invalid, invalid
    present = [pod for pod in pods if pod.revision == course.target.name and not pod.terminating]
    return fabric_active(course.resolved, present), kv_transfer_verified(course.resolved, present)


def _front_door_up(observed: Observed, resolved: Resolved | None) -> bool:
    if resolved and not resolved.front_door.enabled:
        return True
    return bool((observed.front_door or {}).get("status", {}).get("availableReplicas"))


def _troubles(
    observed: Observed, pods: Sequence[EnginePod], course: Rollout | None, problem: InvalidSpec | None
) -> Iterator[Trouble]:
    if problem:
        yield Trouble(Reason.INVALID, str(problem))
    if course and (trouble := rollout_trouble(observed, pods, course)):
        yield trouble
    yield from (refusal_trouble(refusal) for refusal in observed.refusals)
    if observed.missing_key:
        yield key_trouble(observed.missing_key)
    yield from (trouble for pod in pods if (trouble := pod_trouble(pod)))
    yield from shortages((pod.manifest for pod in pods if not pod.terminating), observed.offered)
    if course:
        yield from mismatches(pods, course.resolved, course.target.name)
    trouble = front_door_trouble(observed.front_door)
    if trouble:
        yield trouble


def _events(previous: Sequence[Condition], current: Sequence[Condition]) -> Iterator[EventType]:
    """One event for each condition that turned to what people want to be told, and for a new reason of a warning.

    An event has its condition's reason; conditions that turned for the same reason share one event.
    """
    before = {condition.type: condition for condition in previous}
    told: set[str] = set()
    for kind in _TOLD_FIRST:
        condition = next(entry for entry in current if entry.type == kind)
        last_status, last_reason = _BEFORE_ALL[kind]
        if kind in before:
            last_status, last_reason = before[kind].status, before[kind].reason
        turned = condition.status is not last_status
        warns = _warns(kind, condition)
        if kind in _TOLD_WHEN_TRUE and condition.status is not ConditionStatus.TRUE:
            continue
        if kind in _TOLD_WHEN_KNOWN and condition.status is ConditionStatus.UNKNOWN:
            continue
        worse = warns and kind is not ConditionType.AVAILABLE and condition.reason != last_reason
        if (turned or worse) and condition.reason not in told:
            told.add(condition.reason)
            yield EventType(reason=condition.reason, warning=warns, message=condition.message)


def _warns(kind: ConditionType, condition: Condition) -> bool:
    is_true = condition.status is ConditionStatus.TRUE
    match kind:
        case ConditionType.DEGRADED:
            return is_true
        case ConditionType.AVAILABLE:
            return not is_true
        case ConditionType.FABRIC_ACTIVE | ConditionType.KV_TRANSFER_VERIFIED:
            return condition.status is ConditionStatus.FALSE
        case ConditionType.SPEC_VALID:
            return condition.reason != Reason.VALID
        case ConditionType.READY | ConditionType.PROGRESSING | ConditionType.SCALING_LIMITED:
            return False
