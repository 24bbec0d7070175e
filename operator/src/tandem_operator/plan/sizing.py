# SPDX-License-Identifier: Apache-2.0
"""What the spec says of numbers of engines, with nothing left open."""

from fractions import Fraction
from typing import Final

from tandem_operator.api.scaling import Autoscaling, Scaling
from tandem_operator.api.spec import Decode, Prefill
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.resolved import Ratio, Sizing

FIRST_REPLICAS: Final = 1
"""What a new scaler asks for where the spec doesn't say."""


def sizing_of(given: Prefill | Decode, field: str, limit: int) -> Sizing:
    """The role's own bounds.

    Args:
        given: the role.
        field: its path, as `spec.prefill`.
        limit: most engines where the spec says nothing of that.

    Raises:
        InvalidSpec: the bounds contradict each other.
    """
    if given.autoscaling is None and given.replicas is not None:
        return Sizing(is_fixed=True, first=given.replicas, least=given.replicas, most=given.replicas)
    bounds = given.autoscaling or Autoscaling()
    least = bounds.min_replicas or 0
    most = limit if bounds.max_replicas is None else bounds.max_replicas
    if least > most:
        raise InvalidSpec(
            f"{field}.autoscaling.minReplicas",
            f"{least} is above maxReplicas, which is {most}; lower it, or raise that",
        )
    first = FIRST_REPLICAS if given.replicas is None else given.replicas
    return Sizing(is_fixed=False, first=min(most, max(least, first)), least=least, most=most)


def ratio_of(scaling: Scaling) -> Ratio:
    """The ratio's bounds.

    Raises:
        InvalidSpec: they contradict each other.
    """
    if scaling.ratio is None:
        return Ratio(None, None)
    ratio = Ratio(*(Fraction(bound) if bound else None for bound in (scaling.ratio.min, scaling.ratio.max)))
    if ratio.min is not None and ratio.max is not None and ratio.min > ratio.max:
        raise InvalidSpec(
            "spec.scaling.ratio.min",
            f"{scaling.ratio.min} is above max, which is {scaling.ratio.max}; lower it, or raise that",
        )
    return ratio
