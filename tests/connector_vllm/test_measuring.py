# SPDX-License-Identifier: Apache-2.0
"""What of an engine's steps and wants is taken as a measure of computing and of moving."""

import math

import pytest

from tandem_connector.exchange.commands import LandingEnded, LoadEnded
from tandem_connector.exchange.types import EndReason, EngineId, Index, Purpose, RequestId, Seconds, StepId, WantId
from tandem_connector.exchange.worth import Worth
from tandem_connector.vllm.measuring import Measuring

PEER = EngineId("peer")
T = Seconds(100.0)


class HeardWorth(Worth):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(16, Seconds(60.0))
        self.steps: list[tuple[int, float]] = []
        self.wants: list[tuple[int, float]] = []

    def computed(self, tokens: int, seconds: float, now: Seconds) -> None:
        del now
        self.steps.append((tokens, seconds))

    def moved(self, blocks: int, seconds: float, now: Seconds) -> None:
        del now
        self.wants.append((blocks, seconds))


def at(seconds: float) -> Seconds:
    return Seconds(T + seconds)


def load(purpose: Purpose, reason: EndReason) -> LoadEnded:
    good, bad = (Index(0), Index(1), Index(2)), (Index(3),)
    return LoadEnded(RequestId("r"), WantId(1), PEER, purpose, good, bad, reason, Seconds(0.25))


def test_a_step_takes_from_its_scheduling_to_its_output() -> None:
    worth = HeardWorth()
    measuring = Measuring(worth)
    measuring.scheduled(StepId(1), 512, T)
    measuring.ran(StepId(1), at(0.5))
    assert worth.steps == [(512, 0.5)]


def test_of_steps_that_overlap_the_later_one_begins_when_the_earlier_has_run() -> None:
    worth = HeardWorth()
    measuring = Measuring(worth)
    measuring.scheduled(StepId(1), 512, T)
    measuring.scheduled(StepId(2), 256, at(0.25))
    measuring.ran(StepId(1), at(0.5))
    measuring.ran(StepId(2), at(0.75))
    assert worth.steps == [(512, 0.5), (256, 0.25)]


def test_steps_that_are_told_of_together_are_one() -> None:
    worth = HeardWorth()
    measuring = Measuring(worth)
    measuring.scheduled(StepId(1), 512, T)
    measuring.scheduled(StepId(2), 256, at(0.25))
    measuring.ran(StepId(2), at(0.75))
    measuring.ran(StepId(2), at(5.0))
    assert worth.steps == [(768, 0.75)]


def test_a_step_without_prompt_tokens_is_no_measure() -> None:
    worth = HeardWorth()
    measuring = Measuring(worth)
    measuring.scheduled(StepId(1), 0, T)
    measuring.ran(StepId(1), at(0.5))
    assert worth.steps == []


@pytest.mark.parametrize("reason", EndReason)
@pytest.mark.parametrize("purpose", Purpose)
def test_a_want_of_what_decode_has_is_a_measure_if_it_came_or_its_time_passed(
    purpose: Purpose, reason: EndReason
) -> None:
    worth = HeardWorth()
    Measuring(worth).ended(load(purpose, reason), T)
    tells = purpose in {Purpose.REVERSE_FETCH, Purpose.REVERSE_PUSH} and reason in {
        EndReason.COMPLETE,
        EndReason.EXPIRED,
    }
    assert worth.wants == ([(4, 0.25)] if tells else [])


def test_what_lands_is_a_measure_as_what_is_fetched() -> None:
    worth = HeardWorth()
    landed = LandingEnded(WantId(1), PEER, Purpose.REVERSE_PUSH, 8, 8, EndReason.COMPLETE, Seconds(0.5))
    Measuring(worth).ended(landed, T)
    assert worth.wants == [(8, 0.5)]


def test_decode_which_is_not_written_to_by_other_decode_engines_waits_without_a_measure() -> None:
    worth = Worth(16, Seconds(60.0))
    measuring = Measuring(worth)
    measuring.scheduled(StepId(1), 512, T)
    measuring.ran(StepId(1), at(0.5))
    measuring.ended(load(Purpose.FORWARD, EndReason.COMPLETE), at(0.5))
    assert worth.patience(10, at(0.5)) == math.inf
