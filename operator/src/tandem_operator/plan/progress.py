# SPDX-License-Identifier: Apache-2.0
"""How far the pods are from what the spec wants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tandem_connector.contract.types import Role
from tandem_operator.api.names import front_door_name
from tandem_operator.api.status import Reason, RoleStatus
from tandem_operator.plan.children import selector
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.rollout import Rollout
from tandem_operator.plan.sets import EngineSet, engine_sets, is_observed, name_of_set
from tandem_operator.plan.types import Manifest, Observed


@dataclass(frozen=True)
class Step:
    """What is still going on."""

    reason: Reason
    message: str


def role_status(observed: Observed, role: Role, pods: tuple[EnginePod, ...], revision: str) -> RoleStatus:
    """The role's pods, counted; `revision` is the one that the spec asks for."""
    own = [pod for pod in pods if pod.role is role]
    sets = [each for each in engine_sets(observed) if (each.role, each.revision) == (role, revision)]
    templates = {each.manifest.get("status", {}).get("updateRevision") for each in sets} - {None}
    words = (f"{label}={value}" for label, value in selector(observed.resource.metadata.name, role).items())
    return RoleStatus(
        replicas=len(own),
        ready=sum(pod.takes_requests for pod in own),
        updated=sum(pod.revision == revision and pod.template in templates for pod in own),
        draining=sum(pod.terminating for pod in own),
        selector=",".join(words),
    )


def next_step(observed: Observed, course: Rollout, roles: Mapping[Role, RoleStatus]) -> Step | None:
    """The first thing that isn't as wanted yet; None when all is, or nothing more is done."""
    if course.is_frozen:
        return None
    resolved, target = course.resolved, course.target.name
    for role in Role:
        if step := _set_step(resolved, role, target, course.sets):
            return step
    if course.left:
        return Step(Reason.ROLLING_OUT, _rolling(course))
    for role in Role:
        if step := _engines_step(course, role, roles[role], target):
            return step
    if resolved.front_door.enabled and not front_door_settled(resolved, observed.front_door):
        return Step(Reason.FRONT_DOOR_STARTING, f"Deployment {front_door_name(resolved.name)} is being rolled out")
    return None


def pause(course: Rollout) -> str | None:
    """What `spec.rollout.paused` keeps from being done; None when it keeps nothing."""
    if course.is_frozen:
        return f"{_shares(course)}; set spec.rollout.paused to false to go on"
    if course.is_held_back:
        return (
            f"engines stay of revision {course.target.name}, and {course.wanted.name}, which the spec asks for, is not begun; set"
            " spec.rollout.paused to false to begin"
        )
    return None


def _rolling(course: Rollout) -> str:
    if course.awaits_proof:
        return f"{_shares(course)}; new ones take turns once KV was seen to move between them (condition KVTransferVerified)"
    if not course.is_stuck:
        return _shares(course)
    return (
        f"{_shares(course)}; spec.scaling.gpuBudget and spec.rollout.maxSurgePairs leave no room for the next engine, so an old one"
        " goes first"
    )


def _shares(course: Rollout) -> str:
    own, wanted = course.standing.groups[course.target.name].serving, course.sized.wanted
    left = [f"{sum(course.standing.groups[each.name].held)} of {each.name}" for each in course.left]
    return (
        f"revision {course.target.name}: {own.prefill} of {wanted.prefill} prefill and {own.decode} of {wanted.decode} decode engines"
        f" take turns; engines still there: {', '.join(left)}"
    )


def _set_step(resolved: Resolved, role: Role, target: str, sets: Sequence[EngineSet]) -> Step | None:
    present = next((each for each in sets if (each.role, each.revision) == (role, target)), None)
    if present and is_observed(present.manifest):
        return None
    name = name_of_set(resolved.name, role, target, sets)
    return Step(Reason.ROLLING_OUT, f"StatefulSet {name} has just been applied")


def _engines_step(course: Rollout, role: Role, status: RoleStatus, target: str) -> Step | None:
    wanted = course.sized.wanted.of(role)
    current = status.replicas - status.draining
    if target == course.wanted.name and status.updated < status.replicas and current:
        old = status.replicas - status.updated
        return Step(Reason.ROLLING_OUT, f"{role}: {old} of {status.replicas} pods are of an older configuration")
    if status.replicas > wanted:
        return Step(Reason.SCALING_DOWN, f"{role}: {status.replicas} engines, {wanted} wanted")
    if status.ready < wanted:
        return Step(Reason.ENGINES_STARTING, f"{role}: {status.ready} of {wanted} engines ready")
    return None


def front_door_settled(resolved: Resolved, deployment: Manifest | None) -> bool:
    """Whether all of the front door's pods are of the present template and available."""
    if deployment is None or not is_observed(deployment):
        return False
    status, wanted = deployment.get("status", {}), resolved.front_door.replicas
    counts = (status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas"))
    return all(count == wanted for count in counts)
