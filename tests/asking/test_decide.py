# SPDX-License-Identifier: Apache-2.0
"""When D asks, and for what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.asking.decide import Ask, Local, decide
from tandem_connector.asking.settings import AskingSettings
from tandem_connector.asking.types import LocalReason, Obstacle
from tandem_connector.contract.reverse import Reverse
from tests.asking.builders import BLOCK, SETTINGS, an_arrival, settings


def test_a_long_prompt_is_asked_for_beyond_what_is_held() -> None:
    decision = decide(an_arrival(tokens=1_000), 10, SETTINGS)

    assert decision == Ask(start=10, stop=62, missing_tokens=840, held_tokens=160)


def test_the_block_of_the_last_token_is_never_asked_for() -> None:
    assert decide(an_arrival(tokens=640), 0, SETTINGS) == Ask(start=0, stop=39, missing_tokens=640, held_tokens=0)
    assert decide(an_arrival(tokens=641), 0, SETTINGS) == Ask(start=0, stop=40, missing_tokens=641, held_tokens=0)


@pytest.mark.parametrize(("tokens", "expected"), [(256, Local(LocalReason.FEW_MISSING)), (257, Ask(0, 16, 257, 0))])
def test_the_threshold_is_asked_for_only_from_above(tokens: int, expected: object) -> None:
    assert decide(an_arrival(tokens=tokens), 0, SETTINGS) == expected


def test_what_is_held_counts_for_the_threshold() -> None:
    assert decide(an_arrival(tokens=1_000), 47, SETTINGS) == Local(LocalReason.FEW_MISSING)


def test_a_prompt_that_is_held_is_not_asked_for_even_without_threshold() -> None:
    assert decide(an_arrival(tokens=640), 40, settings(above_tokens=0)) == Local(LocalReason.CACHED)


def test_a_prompt_without_a_full_block_is_not_asked_for() -> None:
    assert decide(an_arrival(tokens=16), 0, settings(above_tokens=0)) == Local(LocalReason.FEW_MISSING)
    assert decide(an_arrival(tokens=0), 0, settings(above_tokens=0)) == Local(LocalReason.FEW_MISSING)


@pytest.mark.parametrize("obstacle", Obstacle)
def test_what_prefill_cannot_compute_stays_here(obstacle: Obstacle) -> None:
    assert decide(an_arrival(tokens=100_000, obstacles=[obstacle]), 0, SETTINGS) == Local(obstacle)


@pytest.mark.parametrize(
    ("reverse", "held"),
    [(Reverse.PUSH_AND_FETCH, 160), (Reverse.FETCH, 160), (Reverse.PUSH, 0), (Reverse.DISABLED, 0)],
)
def test_prefill_is_told_of_held_tokens_only_if_it_may_fetch(reverse: Reverse, held: int) -> None:
    decision = decide(an_arrival(), 10, settings(reverse=reverse))

    assert isinstance(decision, Ask)
    assert decision.held_tokens == held


@given(tokens=st.integers(0, 5_000), held=st.integers(-1, 400), above=st.integers(0, 1_000))
def test_what_is_asked_for_is_missing_and_usable(tokens: int, held: int, above: int) -> None:
    decision = decide(an_arrival(tokens=tokens), held, settings(above_tokens=above))

    if isinstance(decision, Ask):
        assert 0 <= decision.start < decision.stop
        assert decision.stop * BLOCK < tokens
        assert decision.missing_tokens == tokens - decision.start * BLOCK > above


@pytest.mark.parametrize("field", ["block_size", "attempts", "load_factor"])
def test_a_setting_out_of_bounds_is_named(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 0; give at least 1"):
        AskingSettings(**{"block_size": 16, field: 0})  # type: ignore[arg-type]
