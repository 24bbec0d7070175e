# SPDX-License-Identifier: Apache-2.0
"""What the benchmark says had to be computed and moved, worked out by hand for blocks of 32 tokens."""

from dataclasses import replace

import pytest

from e2e.bench.kv.goals import all_missed, balances
from e2e.bench.kv.journals import Exchanged
from e2e.bench.kv.script import Script
from e2e.bench.kv.ways import Turn

FIRST_PROMPT, SECOND_PROMPT, OUTPUT = 100, 180, 40
HELD = FIRST_PROMPT + OUTPUT - 1  # 139 tokens, of which 128 in full blocks


def a_turn(number: int, prompt: int, held: int) -> Turn:
    return Turn(
        request=f"turn-{number}",
        number=number,
        prompt=prompt,
        output=OUTPUT,
        held_before=held,
        began=0.0,
        seconds_to_first_token=1.0,
        seconds=2.0,
        computed=0,
    )


def two_turns() -> list[Exchanged]:
    """All on P: D gets 3 and then 5-4 blocks, and has computed 4-3 and then 6-5 that P lacks."""
    first = Exchanged(
        turn=a_turn(0, FIRST_PROMPT, 0),
        computed_by_decode=4,
        computed_by_prefill=100,
        cached_by_prefill=0,
        forward_blocks=3,
        fetched_blocks=0,
        pushed_blocks=1,
        to_prefill=None,
        prefill=None,
        wait_after_prefill=None,
        after_wait=None,
        to_commit=None,
    )
    second = replace(
        first,
        turn=a_turn(1, SECOND_PROMPT, HELD),
        computed_by_decode=20,
        computed_by_prefill=52,
        cached_by_prefill=128,
        forward_blocks=1,
    )
    return [first, second]


def test_a_conversation_that_computes_and_moves_only_what_is_missing_misses_no_goal() -> None:
    assert all_missed([two_turns()], forgets=False) == []


def test_tokens_beyond_are_those_of_the_block_that_was_not_full() -> None:
    _, second = balances(two_turns())
    assert second.beyond_at_prefill == 52 - (SECOND_PROMPT - HELD) == 11
    assert second.beyond_at_decode == 19


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"computed_by_prefill": 84, "cached_by_prefill": 96}, ["prefill +43", "fetched 0 of 1"]),
        ({"computed_by_decode": 52}, ["decode +51"]),
        ({"forward_blocks": 2}, ["forward 2 of 1"]),
        ({"pushed_blocks": 0}, ["pushed 0 of 1"]),
    ],
)
def test_what_is_computed_or_moved_beyond_is_said(wrong: dict[str, int], said: list[str]) -> None:
    first, second = two_turns()
    missed = all_missed([[first, replace(second, **wrong)]], forgets=False)  # type: ignore[arg-type]
    assert missed == [f"turn-1: {each}" for each in said]


def test_a_prompt_that_decode_computes_itself_is_all_its_own() -> None:
    first, second = two_turns()
    itself = replace(second, computed_by_decode=52, computed_by_prefill=None, cached_by_prefill=0, forward_blocks=0)
    # P lacks what D computed of the prompt as well: blocks 4 and 5.
    assert all_missed([[first, replace(itself, pushed_blocks=2)]], forgets=False) == []
    assert all_missed([[first, itself]], forgets=False) == ["turn-1: pushed 1 of 2"]


def test_what_a_small_cache_has_lost_is_fetched() -> None:
    first, second = two_turns()
    fetched = replace(second, cached_by_prefill=32, fetched_blocks=3)
    assert all_missed([[first, fetched]], forgets=True) == []


def test_turns_of_a_script_are_long_and_short_and_fit() -> None:
    script = Script.growing_to(8_192, 8, 96)
    assert script.longest <= 8_192
    assert script.longest > 8_192 - 64
    assert min(script.asked) < 256 < max(script.asked)


def test_a_script_without_room_for_its_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit into 500 tokens"):
        Script.growing_to(500, 8, 96)
