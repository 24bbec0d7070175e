# SPDX-License-Identifier: Apache-2.0
"""What a conversation says of a pair, from the answers alone."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.api.status import Reason
from tandem_operator.plan.conversation import (
    TIE,
    Account,
    Answer,
    Course,
    Failed,
    Fault,
    Result,
    Standing,
    goes_on,
    judge,
    prompt,
    read_answer,
    request,
)

COURSE = Course.of(256, None, pushes=True)
P, Q = "uid-of-p-0", "uid-of-q-0"
SHOWN = Result(Standing.SHOWN, Reason.VERIFIED)


def an_account(**changes: Any) -> Account:
    """Of a turn that prefill computed as it should."""
    return Account(computed=1, received={"forward": 384}, computed_by_prefill=385, asked=(P,)).model_copy(
        update=changes
    )


def an_answer(account: Account | None = None, tokens: tuple[int, ...] = (1, 2, 3), margin: float = 9.0) -> Answer:
    return Answer(tokens, (margin,) * len(tokens), account)


FIRST = an_answer(an_account())
SECOND = an_answer(an_account(computed_by_prefill=COURSE.more + 1))
ALONE = an_answer()


def test_a_conversation_in_which_all_went_right_shows_its_pair() -> None:
    assert judge(COURSE, FIRST, SECOND, ALONE) == {P: SHOWN}


@given(st.integers(0, 20_000), st.sampled_from([None, 16, 32, 64, 128]))
def test_each_prompt_lacks_more_tokens_than_decode_computes_by_itself_and_ends_after_a_whole_block(
    above: int, block: int | None
) -> None:
    course = Course.of(above, block, pushes=True)
    held_by_decode = course.first + course.answer - 1
    second = course.first + course.answer + course.more
    assert course.first > above
    assert second - held_by_decode > above
    for size in [block] if block else [16, 32, 64, 128]:
        assert (course.first - 1) % size == held_by_decode % size == (second - 1) % size == 0


def test_prompts_of_one_seed_begin_alike_and_those_of_two_do_not() -> None:
    assert prompt("a", 400)[:100] == prompt("a", 100)
    assert prompt("a", 16) != prompt("b", 16)


def test_a_request_asks_for_a_greedy_answer_of_fixed_length_under_a_salt_of_its_own() -> None:
    body = request("m", (300, 301), salt="s", answer=16)
    assert (body["temperature"], body["max_tokens"], body["min_tokens"], body["cache_salt"]) == (0.0, 16, 16, "s")


@pytest.mark.parametrize(
    ("failed", "standing", "reason"),
    [
        (Failed(Fault.TIMEOUT, "60 s"), Standing.FAILED, Reason.TIMEOUT),
        (Failed(Fault.UNREACHABLE, "no route"), Standing.FAILED, Reason.ENGINE_UNREACHABLE),
        (Failed(Fault.KEY, "HTTP 401"), Standing.OPEN, Reason.KEY_REQUIRED),
        (Failed(Fault.REFUSED, "too long"), Standing.OPEN, Reason.CONVERSATION_REFUSED),
    ],
)
def test_what_decode_does_not_answer_is_said_of_decode(failed: Failed, standing: Standing, reason: Reason) -> None:
    (result,) = judge(COURSE, failed).values()
    assert (result.standing, result.reason) == (standing, reason)
    assert "" in judge(COURSE, failed)
    assert not goes_on(failed)


@pytest.mark.parametrize(
    ("local", "asked", "standing", "reason"),
    [
        ("no_peer", "", Standing.FAILED, Reason.NO_PEER),
        ("too_late", P, Standing.FAILED, Reason.TIMEOUT),
        ("all_failed", P, Standing.FAILED, Reason.NOTHING_MOVED),
        ("undelivered", P, Standing.FAILED, Reason.NOTHING_MOVED),
        ("draining", "", Standing.OPEN, Reason.INCONCLUSIVE),
        ("few_missing", "", Standing.OPEN, Reason.INCONCLUSIVE),
    ],
)
def test_a_prompt_that_decode_computed_itself_says_why(
    local: str, asked: str, standing: Standing, reason: Reason
) -> None:
    turn = an_answer(an_account(local=local, asked=(asked,) if asked else ()))
    result = judge(COURSE, turn)[asked]
    assert (result.standing, result.reason) == (standing, reason)
    assert not goes_on(turn)


def test_decode_that_has_no_peer_because_it_refuses_them_is_of_another_version() -> None:
    turn = an_answer(an_account(local="no_peer", asked=()))
    assert judge(COURSE, turn, refuses_peers=True)[""].reason is Reason.VERSION_MISMATCH


def test_an_engine_that_was_passed_over_has_failed_and_the_one_that_did_it_has_not() -> None:
    first = an_answer(an_account(asked=(Q, P)))
    results = judge(COURSE, first, SECOND, ALONE)
    assert results[P] == SHOWN
    assert results[Q].reason is Reason.NOTHING_MOVED


def test_what_failed_in_the_first_turn_is_not_made_good_by_the_second() -> None:
    first = an_answer(an_account(computed=COURSE.block + 1))
    assert judge(COURSE, first, SECOND, ALONE)[P].reason is Reason.NOTHING_MOVED


def test_prompts_whose_blocks_decode_computed_itself_show_that_nothing_moved() -> None:
    computed_itself = an_answer(an_account(computed=385))
    assert judge(COURSE, computed_itself)[P].reason is Reason.NOTHING_MOVED


def test_prefill_that_computes_what_decode_had_computed_shows_that_nothing_came_back() -> None:
    second = an_answer(an_account(computed_by_prefill=COURSE.more + 1 + COURSE.answer))
    assert judge(COURSE, FIRST, second, ALONE)[P].reason is Reason.NOTHING_MOVED_BACK
    assert judge(replace(COURSE, pushes=False), FIRST, second, ALONE) == {P: SHOWN}


def test_another_prefill_engine_in_the_second_turn_owes_nothing_of_the_first() -> None:
    second = an_answer(an_account(asked=(Q,), computed_by_prefill=900))
    assert judge(COURSE, FIRST, second, ALONE) == {P: SHOWN, Q: SHOWN}


def test_another_token_than_prefill_is_sure_of_is_wrong() -> None:
    result = judge(COURSE, FIRST, SECOND, an_answer(tokens=(1, 9, 3), margin=TIE))[P]
    assert result.reason is Reason.WRONG_OUTPUT
    assert "token 2 of the answer is 2, and 9" in result.detail


def test_after_a_tie_answers_may_differ_and_before_it_they_may_not() -> None:
    tied_second = Answer((1, 9, 8), (9.0, TIE / 2, 9.0), None)
    assert judge(COURSE, FIRST, SECOND, tied_second) == {P: SHOWN}
    tied_first = Answer((7, 2, 3), (TIE / 2, 9.0, 9.0), None)
    assert judge(COURSE, FIRST, SECOND, tied_first)[P].standing is Standing.OPEN
    wrong_before = Answer((7, 9, 3), (9.0, TIE / 2, 9.0), None)
    assert judge(COURSE, FIRST, SECOND, wrong_before)[P].reason is Reason.WRONG_OUTPUT


def test_without_prefills_own_answer_nothing_is_shown() -> None:
    assert judge(COURSE, FIRST, SECOND, None)[P].standing is Standing.OPEN
    unreachable = judge(COURSE, FIRST, SECOND, Failed(Fault.UNREACHABLE, "no route"))[P]
    assert (unreachable.standing, unreachable.reason) == (Standing.OPEN, Reason.ENGINE_UNREACHABLE)


def test_an_answer_without_an_account_is_of_an_engine_without_the_connector() -> None:
    assert judge(COURSE, an_answer(None))[""].reason is Reason.NOTHING_MOVED


def a_response(**tandem: Any) -> dict[str, Any]:
    likeliest = [{"token_id:311": -0.1, "token_id:400": -2.6}, {"token_id:312": -0.2}]
    return {
        "choices": [{"text": "x", "logprobs": {"tokens": ["token_id:311", "token_id:312"], "top_logprobs": likeliest}}],
        "kv_transfer_params": {"tandem": {"prompt": 9, "computed": 1, "asked": ["p"], **tandem}},
    }


def test_a_response_is_read_with_the_margin_of_each_token() -> None:
    answer = read_answer(a_response(received={"forward": 32}))
    assert answer is not None
    assert answer.tokens == (311, 312)
    assert answer.margins == pytest.approx((2.5, 0.0))
    assert answer.account is not None
    assert (answer.account.asked, answer.account.received) == (("p",), {"forward": 32})


def test_a_prefill_engines_response_has_no_account() -> None:
    answer = read_answer({**a_response(), "kv_transfer_params": None})
    assert answer is not None
    assert answer.account is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["choices", "logprobs", "tokens", "top_logprobs", "kv_transfer_params", "tandem"]),
                inner,
            )
        ),
    )
)
def test_whatever_is_answered_is_read_or_refused_and_nothing_else(content: Any) -> None:
    read_answer(content)


@pytest.mark.parametrize("wrong", [{"computed": -1}, {"asked": ["p"] * 65}, {"local": "x" * 65}])
def test_an_account_beyond_its_bounds_is_no_answer(wrong: dict[str, Any]) -> None:
    assert read_answer(a_response(**wrong)) is None
