# SPDX-License-Identifier: Apache-2.0
"""A resource with as many engines as there are to be now."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem_connector.contract.types import Role
from tandem_operator.plan.limited import Limitation, limitations
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolve import resolve
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.scaling import Limits, Numbers, grant, paced
from tandem_operator.plan.types import Defaults, Observed


@dataclass(frozen=True)
class Sized:
    """A resource in which nothing is left open, its pools' numbers of engines included."""

    resolved: Resolved
    limitations: tuple[Limitation, ...]
    """Why these are not the numbers that were asked for; those for which only GPUs have to become free are not mentioned."""


def sized(observed: Observed, pods: Sequence[EnginePod], defaults: Defaults) -> Sized:
    """The resource with what its scalers ask for, as far as its bounds allow.

    Raises:
        InvalidSpec: when the spec cannot be acted on.
    """
    resolved = resolve(observed.resource, defaults)
    limits = _limits(resolved)
    granted = grant(Numbers.by(lambda role: asked(observed, resolved, role)), limits)
    now = paced(granted.given, _present(observed, pods), limits)
    pools = {role: replace(pool, replicas=now.of(role)) for role, pool in resolved.pools.items()}
    return Sized(replace(resolved, pools=pools), limitations(resolved, granted, limits))


def asked(observed: Observed, resolved: Resolved, role: Role) -> int:
    """How many engines the role is asked to have, whatever the bounds say.

    Where there is no scaler yet, as many as there are: a role whose number was fixed so far keeps it.
    """
    sizing = resolved.pools[role].sizing
    if sizing.is_fixed:
        return sizing.first
    if scaler := observed.scalers.get(role):
        return int(scaler["spec"]["replicas"])
    present = observed.sets.get(role, {}).get("spec", {}).get("replicas")
    return sizing.first if present is None else int(present)


def _limits(resolved: Resolved) -> Limits:
    pools = resolved.pools
    return Limits(
        least=Numbers.by(lambda role: pools[role].sizing.least),
        most=Numbers.by(lambda role: pools[role].sizing.most),
        gpus=Numbers.by(lambda role: pools[role].gpus),
        ratio_min=resolved.ratio.min,
        ratio_max=resolved.ratio.max,
        budget=resolved.gpu_budget,
    )


def _present(observed: Observed, pods: Sequence[EnginePod]) -> Numbers:
    """Engines that hold GPUs, or for which their set may make a pod at any moment."""

    def present(role: Role) -> int:
        wanted = observed.sets.get(role, {}).get("spec", {}).get("replicas") or 0
        return max(wanted, sum(pod.role is role for pod in pods))

    return Numbers.by(present)
