# SPDX-License-Identifier: Apache-2.0
"""How many engines each role gets: examples, and what holds for all numbers and bounds."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.plan.scaling import Limits, Numbers, grant

UNBOUNDED = Limits(
    least=Numbers(0, 0), most=Numbers(1000, 1000), gpus=Numbers(8, 8), ratio_min=None, ratio_max=None, budget=None
)


def ratio(least: str | None, most: str | None, limits: Limits = UNBOUNDED) -> Limits:
    return replace(limits, ratio_min=Fraction(least) if least else None, ratio_max=Fraction(most) if most else None)


def given_for(prefill: int, decode: int, limits: Limits) -> Numbers:
    return grant(Numbers(prefill, decode), limits).given


def test_without_bounds_everybody_gets_what_was_asked_for() -> None:
    assert given_for(3, 7, UNBOUNDED) == (3, 7)
    assert given_for(0, 0, UNBOUNDED) == (0, 0)


def test_each_number_stays_within_its_own_bounds() -> None:
    bounded = replace(UNBOUNDED, least=Numbers(2, 0), most=Numbers(4, 5))
    assert given_for(1, 9, bounded) == (2, 5)


@pytest.mark.parametrize(
    ("asked", "bounds", "given"),
    [
        ((1, 10), ("1/2", None), (5, 10)),
        ((10, 1), (None, "2/1"), (10, 5)),
        ((1, 1), ("2/3", "2/3"), (2, 3)),
        ((1, 4), ("1/3", "1/3"), (2, 6)),
        ((3, 4), ("1/2", "1/1"), (3, 4)),
    ],
)
def test_the_ratio_is_kept_by_adding_to_the_role_that_has_too_few(
    asked: tuple[int, int], bounds: tuple[str | None, str | None], given: tuple[int, int]
) -> None:
    assert given_for(*asked, ratio(*bounds)) == given


def test_where_a_role_may_not_have_more_the_other_gets_fewer() -> None:
    assert given_for(1, 10, ratio("1/2", None, replace(UNBOUNDED, most=Numbers(3, 1000)))) == (3, 6)
    assert given_for(10, 1, ratio(None, "2/1", replace(UNBOUNDED, most=Numbers(1000, 3)))) == (6, 3)


def test_a_role_that_was_asked_to_have_engines_keeps_one_and_the_ratio_gives_way() -> None:
    assert given_for(3, 5, ratio("1/4", "1/4", replace(UNBOUNDED, most=Numbers(1000, 2)))) == (1, 2)


def test_both_roles_go_to_zero_together_and_come_back_together() -> None:
    held = ratio("1/4", "1/1")
    assert given_for(0, 4, held) == (1, 4)
    assert given_for(0, 0, held) == (0, 0)
    assert given_for(1, 0, held) == (1, 1)


def test_a_budget_too_small_for_all_is_shared_by_what_each_is_to_get() -> None:
    assert given_for(4, 8, replace(UNBOUNDED, budget=6 * 8)) == (2, 4)
    assert given_for(4, 8, replace(UNBOUNDED, budget=2 * 8)) == (1, 1)
    assert given_for(4, 8, replace(UNBOUNDED, budget=8)) == (0, 1), "decode serves without prefill"


def test_a_budget_too_small_for_all_keeps_the_ratio_where_it_can() -> None:
    assert given_for(10, 10, ratio("1/4", "1/2", replace(UNBOUNDED, budget=8 * 8))) == (2, 5)


def test_a_budget_too_small_for_the_least_is_kept_all_the_same() -> None:
    assert given_for(2, 2, replace(UNBOUNDED, least=Numbers(2, 2), budget=3 * 8)) == (1, 2)


def test_a_budget_that_is_just_enough_for_the_least_is_spent_on_that() -> None:
    assert given_for(17, 14, replace(UNBOUNDED, least=Numbers(0, 9), budget=9 * 8)) == (0, 9)


def test_engines_on_no_gpus_cost_nothing() -> None:
    assert given_for(4, 8, replace(UNBOUNDED, gpus=Numbers(0, 0), budget=1)) == (4, 8)


engines = st.integers(0, 40)
numbers = st.builds(Numbers, engines, engines)
part = st.integers(1, 9)


@st.composite
def any_limits(draw: st.DrawFn) -> Limits:
    bounds = [sorted((draw(engines), draw(engines))) if draw(st.booleans()) else (0, 1000) for _ in range(2)]
    fractions = sorted((Fraction(draw(part), draw(part)), Fraction(draw(part), draw(part))))
    has_min, has_max = draw(st.booleans()), draw(st.booleans())
    gpus = st.sampled_from([0, 1, 2, 4, 8])
    return Limits(
        least=Numbers(bounds[0][0], bounds[1][0]),
        most=Numbers(bounds[0][1], bounds[1][1]),
        gpus=Numbers(draw(gpus), draw(gpus)),
        ratio_min=fractions[0] if has_min else None,
        ratio_max=fractions[1] if has_max else None,
        budget=draw(st.none() | st.integers(1, 600)),
    )


def at_least(more: Numbers, less: Numbers) -> bool:
    return more.prefill >= less.prefill and more.decode >= less.decode


@given(asked=numbers, limits=any_limits())
def test_the_budget_and_the_most_are_always_kept(asked: Numbers, limits: Limits) -> None:
    found = grant(asked, limits).given
    assert limits.affords(found)
    assert at_least(limits.most, found)


@given(asked=numbers, limits=any_limits())
def test_the_least_is_kept_whenever_the_budget_has_the_gpus_for_it(asked: Numbers, limits: Limits) -> None:
    found = grant(asked, limits).given
    assert at_least(found, limits.least) or not limits.affords(limits.least)


@given(asked=numbers, limits=any_limits())
def test_nothing_changes_that_is_within_all_bounds(asked: Numbers, limits: Limits) -> None:
    within = at_least(asked, limits.least) and at_least(limits.most, asked)
    if within and limits.keeps_ratio(asked) and limits.affords(asked):
        assert grant(asked, limits).given == asked


@given(asked=numbers, limits=any_limits())
def test_what_is_given_is_given_when_it_is_asked_for(asked: Numbers, limits: Limits) -> None:
    found = grant(asked, limits)
    if limits.keeps_ratio(found.given) and limits.affords(limits.least):
        assert grant(found.given, limits).given == found.given


@given(asked=numbers, limits=any_limits())
def test_without_a_budget_the_ratio_gives_way_only_where_no_numbers_would_keep_it(
    asked: Numbers, limits: Limits
) -> None:
    unpaid = replace(limits, budget=None)
    found = grant(asked, unpaid)
    if unpaid.keeps_ratio(found.given):
        return
    # Neither role to zero that was asked to have engines.
    lowest = [max(least, min(1, number)) for least, number in zip(limits.least, found.bounded, strict=True)]
    allowed = (
        Numbers(prefill, decode)
        for prefill in range(lowest[0], min(limits.most.prefill, 50) + 1)
        for decode in range(lowest[1], min(limits.most.decode, 50) + 1)
    )
    assert not any(unpaid.keeps_ratio(each) for each in allowed)


@given(asked=numbers, limits=any_limits(), more=st.integers(1, 100))
def test_a_greater_budget_never_gives_a_role_fewer_engines(asked: Numbers, limits: Limits, more: int) -> None:
    if limits.budget is not None:
        richer = replace(limits, budget=limits.budget + more)
        assert at_least(grant(asked, richer).given, grant(asked, limits).given)


@given(asked=numbers, more=numbers, limits=any_limits())
def test_without_a_budget_asking_for_more_never_gives_a_role_fewer_engines(
    asked: Numbers, more: Numbers, limits: Limits
) -> None:
    unpaid = replace(limits, budget=None)
    greater = Numbers(asked.prefill + more.prefill, asked.decode + more.decode)
    assert at_least(grant(greater, unpaid).given, grant(asked, unpaid).given)
