# SPDX-License-Identifier: Apache-2.0
"""A resource with as many engines as there are to be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem_connector.contract.types import Role
from tandem_operator.plan.limited import Limitation, limitations
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.scaling import Limits, Numbers, grant
from tandem_operator.plan.sets import EngineSet
from tandem_operator.plan.types import Observed


@dataclass(frozen=True)
class Sized:
    """A resource in which nothing is left open, its pools' numbers of engines included."""

    resolved: Resolved
    limitations: tuple[Limitation, ...]
    """Why these are not the numbers that were asked for."""

    @property
    def wanted(self) -> Numbers:
        """How many engines there are to be, when those that have no place among them are gone."""
        return Numbers.by(lambda role: self.resolved.pools[role].replicas)


def sized(observed: Observed, resolved: Resolved, gpus: Numbers, sets: Sequence[EngineSet]) -> Sized:
    """The resource with what its scalers ask for, as far as its bounds allow.

    Args:
        observed: with its scalers.
        resolved: the resource.
        gpus: of an engine of each role.
        sets: of the engines that there are.
    """
    limits = _limits(resolved, gpus)
    granted = grant(Numbers.by(lambda role: asked(observed, resolved, role, sets)), limits)
    pools = {role: replace(pool, replicas=granted.given.of(role)) for role, pool in resolved.pools.items()}
    return Sized(replace(resolved, pools=pools), limitations(resolved, granted, limits))


def asked(observed: Observed, resolved: Resolved, role: Role, sets: Sequence[EngineSet]) -> int:
    """How many engines the role is asked to have, whatever the bounds say.

    Where there is no scaler yet, as many as there are: a role whose number was fixed so far keeps it.
    """
    sizing = resolved.pools[role].sizing
    if sizing.is_fixed:
        return sizing.first
    if scaler := observed.scalers.get(role):
        return int(scaler["spec"]["replicas"])
    present = [each.replicas for each in sets if each.role is role]
    if not present:
        return sizing.first
    surplus = resolved.pace.surge if sum(map(bool, present)) > 1 else 0
    return max(*present, sum(present) - surplus) if len(present) > 1 else present[0]


def _limits(resolved: Resolved, gpus: Numbers) -> Limits:
    pools = resolved.pools
    return Limits(
        least=Numbers.by(lambda role: pools[role].sizing.least),
        most=Numbers.by(lambda role: pools[role].sizing.most),
        gpus=gpus,
        ratio_min=resolved.ratio.min,
        ratio_max=resolved.ratio.max,
        budget=resolved.gpu_budget,
    )
