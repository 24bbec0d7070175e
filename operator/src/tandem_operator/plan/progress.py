# SPDX-License-Identifier: Apache-2.0
"""How far the pods are from what the spec wants."""

from dataclasses import dataclass

from tandem_connector.contract.types import Role
from tandem_operator.api.names import front_door_name, role_name
from tandem_operator.api.status import Reason, RoleStatus
from tandem_operator.plan.children import selector
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.types import Manifest, Observed


@dataclass(frozen=True)
class Step:
    """What is still going on."""

    reason: Reason
    message: str


def role_status(observed: Observed, role: Role, pods: tuple[EnginePod, ...]) -> RoleStatus:
    """The role's pods, counted."""
    own = [pod for pod in pods if pod.role is role]
    template = observed.sets.get(role, {}).get("status", {}).get("updateRevision")
    words = (f"{label}={value}" for label, value in selector(observed.resource.metadata.name, role).items())
    return RoleStatus(
        replicas=len(own),
        ready=sum(pod.takes_requests for pod in own),
        updated=sum(bool(template) and pod.template == template for pod in own),
        draining=sum(pod.terminating for pod in own),
        selector=",".join(words),
    )


def next_step(observed: Observed, resolved: Resolved, roles: dict[Role, RoleStatus]) -> Step | None:
    """The first thing that isn't as wanted yet; None when all is."""
    for role in Role:
        step = _engines_step(resolved, role, observed.sets.get(role), roles[role])
        if step:
            return step
    if resolved.front_door.enabled and not front_door_settled(resolved, observed.front_door):
        return Step(Reason.FRONT_DOOR_STARTING, f"Deployment {front_door_name(resolved.name)} is being rolled out")
    return None


def _engines_step(resolved: Resolved, role: Role, stateful_set: Manifest | None, status: RoleStatus) -> Step | None:
    wanted = resolved.pools[role].replicas
    name = role_name(resolved.name, role)
    if stateful_set is None or not is_observed(stateful_set):
        return Step(Reason.ROLLING_OUT, f"StatefulSet {name} has just been applied")
    current = status.replicas - status.draining
    if status.updated < status.replicas and current:
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


def is_observed(manifest: Manifest) -> bool:
    """Whether the object's controller has seen its present spec."""
    return bool(manifest.get("status", {}).get("observedGeneration") == manifest["metadata"].get("generation"))
