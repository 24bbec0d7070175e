# SPDX-License-Identifier: Apache-2.0
"""The conversations of a soak: what their turns have in common, and that they fit."""

from pathlib import Path

import pytest

from e2e.engine.model import Shape, make_model
from e2e.exchange.engine import BLOCK_SIZE
from e2e.soak.scripts import SYSTEM, Said, Script, Turn, scripts

MANY = scripts(40)
LONGEST_ANSWER = 64


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "small"
    make_model(folder, shape=Shape(hidden=64, layers=1, heads=2, kv_heads=1, head=32, intermediate=64))
    return folder


def prompts(script: Script, model: Path) -> list[list[int]]:
    """With answers of tokens that no prompt has."""
    answers = {number: [10 + number] * turn.output for number, turn in enumerate(script.turns)}
    return [turn.ids(model, answers) for turn in script.turns]


def common(one: list[int], other: list[int]) -> int:
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


def test_the_same_conversations_are_made_each_time() -> None:
    assert scripts(5) == scripts(40)[:5]


def test_every_prompt_and_its_answer_fit_into_the_model(model: Path) -> None:
    longest = max(len(prompt) for script in MANY for prompt in prompts(script, model))
    assert longest + LONGEST_ANSWER < Shape().longest


def test_a_turn_only_has_answers_of_turns_before_it() -> None:
    for script in MANY:
        for number, turn in enumerate(script.turns):
            assert all(part.turn < number for part in turn.parts if isinstance(part, Said))
        assert [turn for together in script.rounds for turn in together] == list(range(len(script.turns)))


def test_the_main_line_goes_on_where_it_was_and_a_fork_leaves_it(model: Path) -> None:
    for script in MANY:
        first, second, third, fork, _, _ = prompts(script, model)
        assert common(first, second) == len(first)
        assert common(second, third) == len(second)
        assert common(fork, second) == len(first) + script.turns[0].output


def test_an_edited_history_and_another_conversation_share_the_system_prompt_only(model: Path) -> None:
    one, other = (prompts(script, model) for script in MANY[:2])
    assert common(one[2], one[4]) == common(one[0], other[0]) == SYSTEM.tokens > 5 * BLOCK_SIZE


def test_stripped_answers_are_there_without_their_beginning(model: Path) -> None:
    turn = Turn((Said(0, skipped=2), Said(1)), output=1)
    assert turn.ids(model, {0: [1, 2, 3, 4], 1: [5]}) == [3, 4, 5]
