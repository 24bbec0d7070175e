# SPDX-License-Identifier: Apache-2.0
"""What is concluded from conversations."""

from e2e.demo.held import first_difference
from tests.demo.builders import a_turn, held


def test_what_a_turn_computed_is_that_of_both_pools_and_the_first_turn_is_left_out_of_later_ones() -> None:
    conversation = held("Push", a_turn(prefill=700, decode=20), a_turn(prefill=100, decode=8), a_turn(prefill=70))

    assert conversation.rows[0].computed == 720
    assert conversation.computed_later == 178


def test_the_first_turn_whose_answers_are_not_all_the_same_is_told() -> None:
    one = held("one", a_turn(text="a"), a_turn(text="b"), a_turn(text="c"))
    other = held("other", a_turn(text="a"), a_turn(text="b"), a_turn(text="x"))

    assert first_difference([one, one, one]) is None
    assert first_difference([one, one, other]) == 3
