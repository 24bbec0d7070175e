# SPDX-License-Identifier: Apache-2.0
"""What is fetched or waited for, and what is computed because that is sooner."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

from tandem_connector.exchange.types import Seconds
from tandem_connector.exchange.worth import Worth, _Line

SIZE = 16
AGE = Seconds(60.0)
NOW = Seconds(1_000.0)
sizes = st.integers(1, 10_000)
durations = st.floats(0.0001, 100)
points = st.lists(st.tuples(sizes, durations), min_size=1, max_size=30)


def worth(*, token: float = 0.001, step: float = 0.0, block: float = 0.001, latency: float = 0.0) -> Worth:
    """An engine with these costs, in seconds, measured with two sizes each."""
    made = Worth(SIZE, AGE)
    for count in (100, 1_000):
        made.computed(count, step + count * token, NOW)
        made.moved(count, latency + count * block, NOW)
    return made


def line(measured: list[tuple[int, float]]) -> _Line:
    made = _Line(AGE)
    for size, seconds in measured:
        made.add(size, seconds, NOW)
    return made


def predicted(made: _Line, size: int) -> float:
    seconds = made.at(size, NOW)
    assert seconds is not None
    return seconds


def test_before_both_were_measured_everything_is_waited_for() -> None:
    made = Worth(SIZE, AGE)
    assert made.patience(1, NOW) == math.inf
    made.computed(100, 0.001, NOW)
    assert made.patience(1, NOW) == math.inf
    made = Worth(SIZE, AGE)
    made.moved(1, 100.0, NOW)
    assert made.patience(1, NOW) == math.inf


def test_what_comes_sooner_than_it_is_computed_is_waited_for_as_long_as_computing_takes() -> None:
    assert worth(token=0.001, block=0.002).patience(100, NOW) == pytest.approx(100 * SIZE * 0.001)


def test_what_is_computed_sooner_is_not_waited_for() -> None:
    assert worth(token=0.001, block=0.02).patience(100, NOW) == 0.0


def test_a_fixed_latency_is_worth_it_only_for_many_blocks() -> None:
    made = worth(token=0.0001, block=0.0001, latency=0.1)
    assert made.patience(10, NOW) == 0.0
    assert made.patience(1_000, NOW) > 0.0


def test_blocks_that_come_one_by_one_and_late_say_nothing_of_many() -> None:
    made = Worth(SIZE, AGE)
    made.computed(900, 1.0, NOW)
    for seconds in (0.04, 1.7, 0.4):
        made.moved(1, seconds, NOW)
    assert made.patience(4, NOW) == 0.0
    assert made.patience(29, NOW) == math.inf


def test_many_that_came_late_are_remembered_until_many_more_have_come() -> None:
    made = Worth(SIZE, AGE)
    made.computed(900, 1.0, NOW)
    made.moved(30, 5.0, NOW)
    assert made.patience(29, NOW) == 0.0
    for _ in range(30):
        made.moved(1, 0.3, NOW)
    assert made.patience(29, NOW) == math.inf


def test_a_measure_that_is_not_renewed_is_forgotten_and_the_next_one_stands_alone() -> None:
    made = worth(token=0.001, block=10.0)
    almost, later = Seconds(NOW + AGE - 0.1), Seconds(NOW + AGE)
    assert made.patience(5, almost) == 0.0
    assert made.patience(5, later) == math.inf
    made.computed(100, 0.1, later)
    made.moved(5, 0.001, later)
    assert made.patience(5, later) == pytest.approx(5 * SIZE * 0.001)


def test_an_engine_that_has_become_fast_is_believed_after_some_blocks() -> None:
    made = worth(token=0.001, block=10.0)
    for _ in range(150):
        made.moved(10, 0.01, NOW)
    assert made.patience(10, NOW) > 0.0


def test_without_an_age_nothing_is_ever_measured() -> None:
    made = Worth(SIZE, Seconds(0.0))
    made.computed(100, 0.001, NOW)
    made.moved(1, 100.0, NOW)
    assert made.patience(1, NOW) == math.inf


@given(points, sizes, sizes)
def test_more_takes_no_less_time(measured: list[tuple[int, float]], one: int, other: int) -> None:
    less, more = sorted((one, other))
    made = line(measured)
    assert 0 <= predicted(made, less) <= predicted(made, more) * (1 + 1e-9)


@given(points, sizes)
def test_an_estimate_is_bounded_by_the_slowest_that_was_measured_and_by_the_slowest_for_its_size(
    measured: list[tuple[int, float]], size: int
) -> None:
    slowest = max(seconds for _, seconds in measured)
    rate = max(seconds / of for of, seconds in measured)
    assert predicted(line(measured), size) <= (slowest + rate * size) * (1 + 1e-6)


@given(points, sizes, durations)
def test_a_measurement_pulls_the_estimate_of_its_size_towards_it(
    measured: list[tuple[int, float]], size: int, seconds: float
) -> None:
    made = line(measured)
    before = predicted(made, size)
    made.add(size, seconds, NOW)
    low, high = sorted((before, seconds))
    assert low * (1 - 1e-4) <= predicted(made, size) <= high * (1 + 1e-4)


@given(st.floats(0, 10), st.floats(0, 1), st.lists(sizes, min_size=2, max_size=20, unique=True), sizes)
def test_what_lies_on_a_line_is_estimated_exactly(beginning: float, slope: float, of: list[int], size: int) -> None:
    assume(beginning + slope > 1e-6)
    made = line([(each, beginning + slope * each) for each in of])
    assume(max(of) > 1.01 * min(of))
    assert predicted(made, size) == pytest.approx(beginning + slope * size, rel=1e-3, abs=1e-4)


@given(points, points, sizes, st.floats(1, 100))
def test_the_slower_blocks_come_the_less_is_waited_for(
    computed: list[tuple[int, float]], moved: list[tuple[int, float]], blocks: int, slower: float
) -> None:
    def patience(factor: float) -> float:
        made = Worth(SIZE, AGE)
        for size, seconds in computed:
            made.computed(size, seconds, NOW)
        for size, seconds in moved:
            made.moved(size, seconds * factor, NOW)
        return made.patience(blocks, NOW)

    assert patience(slower) <= patience(1.0)
