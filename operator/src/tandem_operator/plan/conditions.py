# SPDX-License-Identifier: Apache-2.0
"""The resource's conditions, concluded from what was counted and found."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tandem_connector.contract.types import Role
from tandem_operator.api.status import Condition, ConditionStatus, ConditionType, Reason, RoleStatus
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.finding import Finding
from tandem_operator.plan.limited import Limitation
from tandem_operator.plan.progress import Step
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.stamp import stamp
from tandem_operator.plan.troubles import Trouble

_SHOWN_TROUBLES: Final = 3
_LONGEST_MESSAGE: Final = 2048
"""Characters. The schema allows more, but a condition is read by people."""


@dataclass(frozen=True)
class Facts:
    """What conditions follow from."""

    roles: Mapping[Role, RoleStatus]
    needed: Set[Role]
    """Roles without which no turn is served."""
    front_door_up: bool
    """Also when there is to be none."""
    resolved: Resolved | None
    """None when the spec is invalid."""
    problem: InvalidSpec | None
    step: Step | None
    pause: str | None
    """What `spec.rollout.paused` keeps from being done."""
    troubles: Sequence[Trouble]
    """Worst first."""
    limitations: Sequence[Limitation]
    """As `troubles`."""
    fabric: Finding
    """Over what the engines exchange."""
    verified: Finding
    """Whether KV was seen to move."""


_STATUSES: Final = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: ConditionStatus.UNKNOWN}
_INVALID: Final = Finding(False, Reason.INVALID, "nothing is changed until the spec is corrected")


def findings(facts: Facts) -> dict[ConditionType, Finding]:
    """A finding for each condition type."""
    available = _available(facts)
    return {
        ConditionType.READY: _ready(facts, available),
        ConditionType.AVAILABLE: available,
        ConditionType.PROGRESSING: _progressing(facts),
        ConditionType.DEGRADED: _degraded(facts),
        ConditionType.SPEC_VALID: _spec_valid(facts),
        ConditionType.FABRIC_ACTIVE: facts.fabric,
        ConditionType.KV_TRANSFER_VERIFIED: facts.verified,
        ConditionType.SCALING_LIMITED: _INVALID if facts.problem else scaling_limited(facts.limitations),
    }


def conditions(
    found: Mapping[ConditionType, Finding], previous: Sequence[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The findings as conditions; the time of a transition moves only when the status does."""
    before = {condition.type: condition for condition in previous}
    at = stamp(now)
    result = []
    for kind, finding in found.items():
        status = _STATUSES[finding.status]
        last = before.get(kind)
        result.append(
            Condition(
                type=kind,
                status=status,
                observed_generation=generation,
                last_transition_time=last.last_transition_time if last and last.status is status else at,
                reason=finding.reason,
                message=finding.message[:_LONGEST_MESSAGE],
            )
        )
    return tuple(result)


def scaling_limited(limitations: Sequence[Limitation]) -> Finding:
    """Whether numbers of engines are not those that were asked for."""
    if not limitations:
        return Finding(False, Reason.AS_ASKED, "as many engines as were asked for")
    return Finding(True, limitations[0].reason, "; ".join(each.message for each in limitations))


def _available(facts: Facts) -> Finding:
    for role, lacking in ((Role.PREFILL, Reason.NO_PREFILL), (Role.DECODE, Reason.NO_DECODE)):
        if facts.roles[role].ready or role not in facts.needed:
            continue
        if facts.resolved and facts.resolved.pools[role].replicas == 0:
            return Finding(False, Reason.SCALED_TO_ZERO, f"no {role} engines are asked for")
        return Finding(False, lacking, f"no {role} engine takes requests")
    if not facts.front_door_up:
        return Finding(False, Reason.FRONT_DOOR_STARTING, "no front-door pod is available")
    return Finding(True, Reason.SERVING, _counts(facts))


def _ready(facts: Facts, available: Finding) -> Finding:
    if facts.problem:
        return Finding(False, Reason.INVALID, str(facts.problem))
    if not available.status:
        return available
    if facts.step:
        return Finding(False, facts.step.reason, facts.step.message)
    if facts.pause:
        return Finding(False, Reason.ROLLOUT_PAUSED, facts.pause)
    if facts.troubles:
        return Finding(False, facts.troubles[0].reason, facts.troubles[0].message)
    return Finding(True, Reason.ENGINES_READY, _counts(facts))


def _progressing(facts: Facts) -> Finding:
    if facts.problem:
        return _INVALID
    if facts.step:
        return Finding(True, facts.step.reason, facts.step.message)
    if facts.pause:
        return Finding(False, Reason.ROLLOUT_PAUSED, facts.pause)
    return Finding(False, Reason.SETTLED, "pods are as the spec wants them")


def _degraded(facts: Facts) -> Finding:
    if not facts.troubles:
        return Finding(False, Reason.HEALTHY, "nothing keeps the spec from being reached")
    shown = [trouble.message for trouble in facts.troubles[:_SHOWN_TROUBLES]]
    rest = len(facts.troubles) - len(shown)
    return Finding(True, facts.troubles[0].reason, "; ".join([*shown, *([f"and {rest} more"] if rest else [])]))


def _spec_valid(facts: Facts) -> Finding:
    if facts.problem or facts.resolved is None:
        return Finding(False, Reason.INVALID, str(facts.problem))
    for role, pool in facts.resolved.pools.items():
        if pool.devices.loses_isolation:
            return Finding(
                True,
                Reason.ISOLATION_LOST,
                f"{role} engines run privileged with {pool.devices.efas} of {pool.devices.profile.efas} EFA devices of a node"
                " and see all of them; remove spec.accelerator.privileged, or give each pod a whole node",
            )
    return Finding(True, Reason.VALID, "the spec is understood")


def _counts(facts: Facts) -> str:
    prefill, decode = facts.roles[Role.PREFILL].ready, facts.roles[Role.DECODE].ready
    return f"{prefill} prefill and {decode} decode engines take requests"
