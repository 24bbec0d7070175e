# SPDX-License-Identifier: Apache-2.0
"""The rule by which two engines' answers are the same: log-probabilities up to rounding, and another token only for a tie."""

import pytest

from e2e.exchange.likeness import ROUNDING, TIE, Step, difference

SURE = Step(7, {7: -0.1, 8: -3.0})
TIED = Step(7, {7: -0.7, 8: -0.7 - TIE / 2})
TIED_THE_OTHER_WAY = Step(8, {7: -0.7 - TIE / 2, 8: -0.7})
LAST = Step(9, {9: -0.2, 3: -2.0})


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ([], []),
        ([SURE, LAST], [SURE, LAST]),
        ([SURE], [Step(7, {7: -0.1 - ROUNDING / 2, 8: -3.0})]),
        ([SURE], [Step(7, {7: -0.1, 5: -9.0})]),
        ([SURE, TIED, LAST], [SURE, TIED_THE_OTHER_WAY, SURE, SURE]),
    ],
    ids=["nothing", "equal", "rounded", "another name far behind", "what follows a tie"],
)
def test_answers_that_are_the_same(expected: list[Step], got: list[Step]) -> None:
    assert difference(expected, got) is None
    assert difference(got, expected) is None


@pytest.mark.parametrize(
    ("expected", "got", "why"),
    [
        ([SURE, LAST], [SURE], "2 and 1 tokens"),
        ([SURE], [Step(7, {7: -0.1 - 2 * ROUNDING, 8: -3.0})], "at 0: 7 has -0.1 and -0.102"),
        ([SURE], [Step(7, {7: -0.1, 8: -3.1})], "at 0: 8 has -3.0 and -3.1"),
        ([LAST, SURE], [LAST, Step(8, {7: -3.0, 8: -0.1})], "at 1: 7 and 8, which have -0.1, -3.0"),
        ([LAST, SURE], [LAST, Step(4, {4: -0.1})], "at 1: 7 and 4, and neither"),
        # Only one of them sees a tie: the other's numbers are wrong by more than rounding.
        ([TIED], [Step(8, {7: -3.0, 8: -0.1})], "at 0: 7 and 8, which have -3.0, -0.1"),
    ],
    ids=["shorter", "rounded too far", "a token behind", "another token", "an unheard-of token", "one sees a tie"],
)
def test_answers_that_are_not(expected: list[Step], got: list[Step], why: str) -> None:
    told = difference(expected, got)
    assert told is not None
    assert told.startswith(why)
