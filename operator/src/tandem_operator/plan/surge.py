# SPDX-License-Identifier: Apache-2.0
"""How many engines each revision is to have next: one step of scaling and of a roll-out, in whole numbers.

The target gets what is wanted, engine by engine, as far as two bounds allow: all engines that there are, those that end included, need
no more GPUs than the budget, and no role has more of them than is wanted and the surge. Engines of other revisions go as those
of the target take turns, so that there are never fewer than wanted. Where the bounds leave no room for the target's next engine, one
of another revision goes first.

A step depends on what there is and on nothing that was decided before, so one that was carried out by halves is no worse than
another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem_connector.contract.types import Role
from tandem_operator.plan.scaling import NONE, Numbers, greater, smaller, towards


@dataclass(frozen=True)
class Group:
    """A revision's engines."""

    name: str
    """The revision's."""
    gpus: Numbers
    """Of one engine."""
    replicas: Numbers
    """That its sets have now."""
    pods: Numbers
    """That there are, those included that end."""
    proven: Numbers
    """Of these, engines that may take turns as far as they themselves go."""
    serving: Numbers
    """Of these, engines that take turns."""
    strays: Numbers = NONE
    """Pods besides, of a revision that no set has: somebody changed their labels."""
    may_vanish: bool = False
    """It has never been complete and serves nobody, or it mustn't serve any more: its engines aren't waited for."""

    @property
    def held(self) -> Numbers:
        """Engines that hold GPUs, or for which a set may make a pod at any moment."""
        return greater(self.replicas, Numbers.by(lambda role: self.pods.of(role) + self.strays.of(role)))

    @property
    def is_gone(self) -> bool:
        """Whether it has no engines, and gets none."""
        return self.held == NONE


@dataclass(frozen=True)
class Bounds:
    """What a step keeps to."""

    wanted: Numbers
    """Engines of the target, in the end."""
    budget: int | None
    """GPUs."""
    surge: int
    """Engines of each role beyond those that are wanted, while revisions change."""
    at_once: bool = False
    """Other revisions go first, and all at once."""


@dataclass(frozen=True)
class Step:
    """What comes next."""

    replicas: dict[str, Numbers]
    """Of each revision, by name."""
    is_stuck: bool = False
    """There was no room for the target's next engine, so that one of another revision goes first."""
    has_all_it_gets: bool = False
    """All the engines that the target gets while others are there may take turns."""


def step(target: Group, others: Sequence[Group], bounds: Bounds) -> Step:
    """What each revision is to have next.

    Args:
        target: what is wanted.
        others: what isn't any more, those that go first first.
        bounds: what is kept.
    """
    goals = _lowered(target, others, bounds)
    before = smaller(bounds.wanted, target.replicas)
    after = _raised(before, target, others, bounds)
    numbers = {**goals, target.name: after}
    is_up = target.proven == greater(target.proven, after)
    is_quiet = all(goals[each.name] == each.held for each in others)
    if after != before or not is_up or not is_quiet:
        return Step(numbers)
    if after == bounds.wanted or not others:
        return Step(numbers, has_all_it_gets=True)
    if target.serving != after and all(after.of(role) or not bounds.wanted.of(role) for role in Role):
        # It could take over with these, if it hasn't: what goes before would be missed.
        return Step(numbers, has_all_it_gets=True)
    return Step({**numbers, **_making_room(after, others, bounds)}, is_stuck=True, has_all_it_gets=True)


def _lowered(target: Group, others: Sequence[Group], bounds: Bounds) -> dict[str, Numbers]:
    """What the others keep: in each role as many together as the target lacks."""
    left = Numbers.by(lambda role: max(0, bounds.wanted.of(role) - target.serving.of(role)))
    kept: dict[str, Numbers] = {}
    for each in reversed(others):
        kept[each.name] = NONE if bounds.at_once or each.may_vanish else smaller(left, each.replicas)
        left = Numbers(left.prefill - kept[each.name].prefill, left.decode - kept[each.name].decode)
    return kept


def _raised(before: Numbers, target: Group, others: Sequence[Group], bounds: Bounds) -> Numbers:
    """As much of what is wanted as there is room for."""
    if bounds.at_once and not all(each.is_gone for each in others):
        return before
    now = before
    for more in towards(before, bounds.wanted):
        if not _is_within(greater(more, target.held), target, others, bounds):
            break
        now = more
    return now


def _is_within(held: Numbers, target: Group, others: Sequence[Group], bounds: Bounds) -> bool:
    """Whether the target may hold these. What is there already is no reason to refuse what adds nothing to it."""
    if held == target.held:
        return True
    for role in Role:
        others_hold = sum(each.held.of(role) for each in others)
        is_more = held.of(role) > target.held.of(role)
        if is_more and held.of(role) + others_hold > bounds.wanted.of(role) + bounds.surge:
            return False
    gpus = sum(_gpus(each.held, each.gpus) for each in others) + _gpus(held, target.gpus)
    return bounds.budget is None or gpus <= bounds.budget


def _making_room(now: Numbers, others: Sequence[Group], bounds: Bounds) -> dict[str, Numbers]:
    """One engine less, of the role of which the target lacks the next one if there is any."""
    following = next(towards(now, bounds.wanted))
    first = Role.PREFILL if following.prefill > now.prefill else Role.DECODE
    for role in (first, first.other):
        for each in others:
            if each.replicas.of(role):
                return {each.name: each.replicas.less_one(role)}
    return {}


def _gpus(engines: Numbers, of_one: Numbers) -> int:
    return engines.prefill * of_one.prefill + engines.decode * of_one.decode
