# SPDX-License-Identifier: Apache-2.0
"""How many engines each role gets of those that are asked for: arithmetic on two whole numbers.

In three steps, each of which the next one takes as asked for:

1. Each number is brought between the role's own bounds.
2. The ratio is kept by adding to the role that has too few: nobody loses engines that were asked for because another role asks
   for less. Where the role may not have more, the other gets fewer; but no role goes to zero that was asked to have engines.
3. While that is more than the budget has GPUs for, engines are given one by one, each to the role that has the smaller part of
   its share, decode first.

A bound that can't be kept beside those before it is not kept: the budget and each role's most always are, each role's least
unless the budget is too small for it, the ratio where the others allow it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from math import ceil, floor
from typing import Final, NamedTuple, Self

from tandem_connector.contract.types import Role


class Numbers(NamedTuple):
    """A number for each role: engines, or GPUs of an engine."""

    prefill: int
    decode: int

    @classmethod
    def by(cls, number: Callable[[Role], int]) -> Self:
        """What `number` says of each role."""
        return cls(number(Role.PREFILL), number(Role.DECODE))

    def of(self, role: Role) -> int:
        """The role's number."""
        return self.prefill if role is Role.PREFILL else self.decode

    def less_one(self, role: Role) -> Self:
        """The same with one less of the role."""
        return type(self)(self.prefill - (role is Role.PREFILL), self.decode - (role is Role.DECODE))


NONE: Final = Numbers(0, 0)


@dataclass(frozen=True)
class Limits:
    """What numbers of engines have to keep to."""

    least: Numbers
    most: Numbers
    """At least `least`."""
    gpus: Numbers
    """Of one engine."""
    ratio_min: Fraction | None
    """Of prefill to decode engines."""
    ratio_max: Fraction | None
    """At least `ratio_min`."""
    budget: int | None
    """GPUs."""

    def keeps_ratio(self, engines: Numbers) -> bool:
        """Whether the ratio allows these numbers. It always allows none at all."""
        return (self.ratio_min is None or engines.prefill >= self.ratio_min * engines.decode) and (
            self.ratio_max is None or engines.prefill <= self.ratio_max * engines.decode
        )

    def affords(self, engines: Numbers) -> bool:
        """Whether the budget has the GPUs for them."""
        gpus = engines.prefill * self.gpus.prefill + engines.decode * self.gpus.decode
        return self.budget is None or gpus <= self.budget


@dataclass(frozen=True)
class Grant:
    """What was asked for, what became of it in each step, and what is given."""

    asked: Numbers
    bounded: Numbers
    """Within each role's bounds."""
    balanced: Numbers
    """Then within the ratio."""
    given: Numbers
    """Then within the budget."""


def grant(asked: Numbers, limits: Limits) -> Grant:
    """How many engines each role gets."""
    bounded = greater(limits.least, smaller(asked, limits.most))
    floor_ = greater(limits.least, smaller(bounded, Numbers(1, 1)))
    balanced = _lowered(_raised(bounded, limits), floor_, limits)
    return Grant(asked, bounded, balanced, _afforded(balanced, floor_, limits))


def _raised(engines: Numbers, limits: Limits) -> Numbers:
    """The least numbers from these on that keep the ratio, as far as each role's most allows."""
    while True:
        prefill, decode = engines
        if limits.ratio_min is not None:
            prefill = min(limits.most.prefill, max(prefill, ceil(limits.ratio_min * decode)))
        if limits.ratio_max is not None:
            decode = min(limits.most.decode, max(decode, ceil(prefill / limits.ratio_max)))
        if engines == (prefill, decode):
            return engines
        engines = Numbers(prefill, decode)


def _lowered(engines: Numbers, floor_: Numbers, limits: Limits) -> Numbers:
    """The greatest numbers up to these that keep the ratio, as far as `floor_` allows."""
    while True:
        prefill, decode = engines
        if limits.ratio_max is not None:
            prefill = max(floor_.prefill, min(prefill, floor(limits.ratio_max * decode)))
        if limits.ratio_min is not None:
            decode = max(floor_.decode, min(decode, floor(prefill / limits.ratio_min)))
        if engines == (prefill, decode):
            return engines
        engines = Numbers(prefill, decode)


def _afforded(goal: Numbers, floor_: Numbers, limits: Limits) -> Numbers:
    """The most on the way to `goal` that there are GPUs for; on the part of it from `floor_` on, the most that keeps the ratio.

    The way doesn't depend on the budget, so a greater budget never gives a role fewer engines.
    """
    if limits.affords(goal):
        return goal
    affordable = Numbers(0, 0)
    balanced: Numbers | None = None
    stations = (affordable, limits.least, floor_, goal)
    for engines in chain.from_iterable(towards(start, end) for start, end in pairwise(stations)):
        if not limits.affords(engines):
            break
        affordable = engines
        if engines == greater(engines, floor_) and limits.keeps_ratio(engines):
            balanced = engines
    return affordable if balanced is None else balanced


def towards(start: Numbers, goal: Numbers) -> Iterator[Numbers]:
    """From `start` (not included) to `goal`, engine by engine: the role is next that has the smaller part of its goal."""
    now = start
    while now != goal:
        prefill_lags = now.prefill * goal.decode < now.decode * goal.prefill
        if now.decode == goal.decode or prefill_lags:
            now = Numbers(now.prefill + 1, now.decode)
        else:
            now = Numbers(now.prefill, now.decode + 1)
        yield now


def smaller(one: Numbers, other: Numbers) -> Numbers:
    """Of each role the smaller number."""
    return Numbers(min(one.prefill, other.prefill), min(one.decode, other.decode))


def greater(one: Numbers, other: Numbers) -> Numbers:
    """Of each role the greater number."""
    return Numbers(max(one.prefill, other.prefill), max(one.decode, other.decode))
