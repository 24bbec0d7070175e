# SPDX-License-Identifier: Apache-2.0
"""The scalers: one for each role whose number of engines the spec leaves open."""

from collections.abc import Mapping
from datetime import datetime

from tandem_connector.contract.types import Role
from tandem_operator.api.names import API_VERSION, SCALER_KIND, role_name
from tandem_operator.api.scaler import ScalerStatus
from tandem_operator.api.status import Condition, ConditionType, RoleStatus
from tandem_operator.plan.children import ENGINE_APPLICATION, labels, metadata
from tandem_operator.plan.conditions import conditions, scaling_limited
from tandem_operator.plan.limited import Limitation
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.rollout import Rollout
from tandem_operator.plan.sized import Sized, asked
from tandem_operator.plan.types import Manifest, Observed


def scalers(resolved: Resolved) -> tuple[Manifest, ...]:
    """The scalers without their number, which belongs to whoever scales."""
    return tuple(_scaler(resolved, role) for role in _scaled_roles(resolved))


def new_scalers(observed: Observed, course: Rollout) -> tuple[Manifest, ...]:
    """The scalers with the number that each has when it is made."""
    resolved = course.resolved
    return tuple(
        {**_scaler(resolved, role), "spec": {"replicas": asked(observed, resolved, role, course.sets)}}
        for role in _scaled_roles(resolved)
    )


def scaler_statuses(
    observed: Observed, sized: Sized, roles: Mapping[Role, RoleStatus], now: datetime
) -> dict[Role, ScalerStatus]:
    """What each scaler that there is tells its autoscaler."""
    return {
        role: _status(scaler, roles[role], [each for each in sized.limitations if role in each.roles], now)
        for role, scaler in observed.scalers.items()
        if not sized.resolved.pools[role].sizing.is_fixed
    }


def _scaled_roles(resolved: Resolved) -> list[Role]:
    return [role for role in Role if not resolved.pools[role].sizing.is_fixed]


def _scaler(resolved: Resolved, role: Role) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": SCALER_KIND,
        "metadata": metadata(resolved, role_name(resolved.name, role), labels(resolved.name, role, ENGINE_APPLICATION)),
    }


def _status(scaler: Manifest, role: RoleStatus, limited: list[Limitation], now: datetime) -> ScalerStatus:
    generation = scaler["metadata"].get("generation", 1)
    former = scaler.get("status", {}).get("conditions") or ()
    found = {ConditionType.SCALING_LIMITED: scaling_limited(limited)}
    return ScalerStatus(
        observed_generation=generation,
        replicas=role.replicas - role.draining,
        ready_replicas=role.ready,
        selector=role.selector,
        conditions=conditions(found, [Condition.model_validate(each) for each in former], generation, now),
    )
