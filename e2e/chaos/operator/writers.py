# SPDX-License-Identifier: Apache-2.0
"""Who wrote when: an operator may write only for as long as a Lease that it has renewed can't have been taken by another."""

from collections.abc import Iterable

from e2e.chaos.operator.proxy import Asked

_OF_LEASES = "/leases"


def unleased(asked: Iterable[Asked], duration: float, ends: Iterable[tuple[str, float]] = ()) -> list[Asked]:
    """Those writes that came when their writer's Lease had run out.

    Args:
        asked: all requests of all operators.
        duration: seconds for which a Lease holds after it was asked to be renewed.
        ends: who was started anew, and when: what its former process had isn't its own.
    """
    renewed: dict[str, float] = {}
    found = []
    moments = [(each.at, each) for each in asked if each.method != "GET"]
    marks: list[tuple[float, Asked | str]] = [*moments, *((at, by) for by, at in ends)]
    for at, each in sorted(marks, key=lambda mark: mark[0]):
        if isinstance(each, str):
            renewed.pop(each, None)
        elif _OF_LEASES in each.path:
            if 200 <= each.status < 300:
                renewed[each.by] = at
        elif at > renewed.get(each.by, float("-inf")) + duration:
            found.append(each)
    return found
