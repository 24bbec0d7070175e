# SPDX-License-Identifier: Apache-2.0
"""Finding the P of a conversation by block hashes."""

from tandem_connector.asking.continuity import Continuity
from tests.asking.builders import A, B, names

BOTH = {A, B}


def a_memory(capacity: int = 100) -> Continuity:
    return Continuity(capacity, per_end=4)


def test_the_next_turn_finds_the_p_of_the_last_one() -> None:
    memory = a_memory()
    memory.remember(names(20), 10, A)

    assert memory.find(names(30), BOTH) == A


def test_an_unknown_conversation_has_no_p() -> None:
    memory = a_memory()
    memory.remember(names(20), 10, A)

    assert memory.find(names(30, "other"), BOTH) is None


def test_a_turn_whose_answer_was_edited_is_found_by_its_prompt() -> None:
    memory = a_memory()
    memory.remember(names(20), 10, A)

    assert memory.find(names(10) + names(15, "edited", start=10), BOTH) == A


def test_a_fork_at_an_earlier_turn_is_found_at_the_p_of_that_turn() -> None:
    memory = a_memory()
    memory.remember(names(20), 10, A)
    memory.remember(names(40), 30, B)

    assert memory.find(names(20) + names(50, "fork", start=20), BOTH) == A
    assert memory.find(names(50), BOTH) == B


def test_a_p_that_cannot_be_used_is_passed_over_for_an_earlier_one() -> None:
    memory = a_memory()
    memory.remember(names(20), 10, A)
    memory.remember(names(40), 30, B)

    assert memory.find(names(50), {A}) == A
    assert memory.find(names(50), set()) is None


def test_what_a_vanished_engine_had_is_forgotten() -> None:
    memory = a_memory()
    memory.remember(names(20), 10, A)
    memory.remember(names(20, "y"), 10, B)

    memory.forget(A)

    assert memory.find(names(30), BOTH) is None
    assert memory.find(names(30, "y"), BOTH) == B
    assert len(memory) == 8


def test_the_least_recently_used_is_forgotten_first() -> None:
    memory = Continuity(capacity=2, per_end=1)
    memory.remember(names(4), 4, A)
    memory.remember(names(4, "y"), 4, B)
    memory.find(names(4), BOTH)

    memory.remember(names(4, "z"), 4, B)

    assert len(memory) == 2
    assert memory.find(names(4), BOTH) == A
    assert memory.find(names(4, "y"), BOTH) is None
