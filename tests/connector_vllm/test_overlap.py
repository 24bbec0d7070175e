# SPDX-License-Identifier: Apache-2.0
"""An empty step sleeps only when no output that matters is in flight."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.exchange.types import StepId
from tandem_connector.vllm.overlap import Overlap


def test_before_the_first_step_nothing_is_in_flight() -> None:
    assert Overlap().may_sleep


def test_a_step_whose_output_matters_keeps_the_next_ones_awake_until_it_was_looked_at() -> None:
    overlap = Overlap()
    overlap.scheduled(StepId(1), tells=True)
    assert not overlap.may_sleep
    overlap.scheduled(StepId(2), tells=False)
    assert not overlap.may_sleep
    overlap.seen(StepId(1))
    assert overlap.may_sleep


def test_a_step_whose_output_does_not_matter_may_be_in_flight_for_as_long_as_it_likes() -> None:
    overlap = Overlap()
    overlap.scheduled(StepId(1), tells=False)
    assert overlap.may_sleep


@given(depth=st.integers(1, 3), tells=st.lists(st.booleans(), max_size=40))
def test_what_matters_was_looked_at_before_a_step_sleeps_and_empty_steps_do_come_to_sleep(
    depth: int, tells: list[bool]
) -> None:
    """As `EngineCore.step_with_batch_queue` does: up to `depth` steps in flight, the oldest looked at when there are more."""
    overlap, flying, unseen = Overlap(), deque[StepId](), set[StepId]()
    for number, matters in enumerate([*tells, *[False] * (depth + 1)], start=1):
        step = StepId(number)
        if overlap.may_sleep:
            assert not unseen
        overlap.scheduled(step, tells=matters)
        flying.append(step)
        if matters:
            unseen.add(step)
        if len(flying) == depth:
            seen = flying.popleft()
            overlap.seen(seen)
            unseen.discard(seen)
    assert overlap.may_sleep
