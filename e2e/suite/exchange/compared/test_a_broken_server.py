# SPDX-License-Identifier: Apache-2.0
"""A prefill engine whose HTTP server is broken, while it answers its peers: decode computes, says why, and comes back."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from e2e.exchange import front as fronts
from e2e.exchange.front import Behaviour, Front, answers
from e2e.exchange.numbers import value_of
from e2e.suite.exchange.compared.conftest import LATER, SOON, Compared

DONE = {"id": "x", "choices": [{"text": "", "finish_reason": "length"}]}
OF_ANOTHER = {
    "tandem": {"version": 1, "prefill": "other-1", "computed_tokens": 1, "cached_tokens": 0, "fetched_tokens": 0}
}
Breaks = Callable[[Front], AbstractContextManager[None]]


def doing(behaviour: Behaviour) -> Breaks:
    return lambda front: front.doing(behaviour)


BROKEN: dict[str, tuple[Breaks, str]] = {
    "refuses": (Front.refusing, "refused"),
    "hangs": (doing(fronts.hangs), "unserved"),
    "drips headers": (doing(fronts.drips_headers), "unserved"),
    "drips a body": (doing(fronts.drips_a_body), "unserved"),
    "headers without end": (doing(fronts.has_headers_without_end), "garbage"),
    "a body without end": (doing(fronts.has_a_body_without_end), "garbage"),
    "500": (doing(answers({"error": "CUDA out of memory"}, "500 Internal Server Error")), "server_error"),
    "a redirect": (doing(answers(b"", "307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/")), "garbage"),
    "another protocol": (doing(fronts.speaks_another_protocol), "garbage"),
    "a web page": (doing(answers(b"<html>Sign in</html>")), "garbage"),
    "JSON of another shape": (doing(answers({"choices": {"text": 5}})), "garbage"),
    "a prefill that failed": (doing(answers({"choices": [{"finish_reason": "error"}]})), "server_error"),
    "another engine's answer": (doing(answers({**DONE, "kv_transfer_params": OF_ANOTHER})), "other_engine"),
    "half an answer": (doing(fronts.breaks_off), "closed"),
    "a broken connection": (doing(fronts.resets), "closed"),
}


def failures(compared: Compared, failure: str) -> float:
    return value_of(compared.decode.metrics(), "tandem_prefill_failures_total", failure=failure)


@pytest.mark.parametrize(("breaks", "failure"), BROKEN.values(), ids=BROKEN)
def test_a_broken_server_is_done_without_and_used_again(compared: Compared, breaks: Breaks, failure: str) -> None:
    one, two = compared.ids(201, 100), compared.ids(202, 100)
    before, asked = failures(compared, failure), compared.front.requests

    with breaks(compared.front):
        answer = compared.same(one, output=4, timeout=30.0)

    assert (answer.account["local"], answer.account["computed"]) == ("all_failed", len(one))
    assert compared.front.requests - asked <= 1
    time.sleep(SOON)
    again = compared.same(two, output=4)
    assert (again.account["local"], again.account["received"]) == ("", {"forward": 96})
    assert failures(compared, failure) == before + 1


def test_an_engine_whose_server_failed_is_left_alone_for_a_while(compared: Compared) -> None:
    one, two, three = (compared.ids(seed, 100) for seed in (201, 202, 203))
    for ids in (one, two, three):
        compared.expected(ids, output=4)
    with compared.front.doing(fronts.resets):
        assert compared.same(one, output=4, by=compared.second).account["local"] == "all_failed"
        asked = compared.front.requests
        assert compared.same(two, output=4, by=compared.second).account["local"] == "no_peer"
    assert compared.front.requests == asked
    time.sleep(LATER)
    assert compared.same(three, output=4, by=compared.second).account["received"] == {"forward": 96}


@pytest.mark.parametrize(
    ("behaviour", "least"),
    # Half an answer comes at about the same time as the blocks, the last of which may be too late then.
    [(fronts.hangs_after_the_prefill, 288), (fronts.breaks_off_after_the_prefill, 0)],
    ids=["hangs", "breaks off"],
)
def test_what_was_computed_is_used_though_the_answer_never_comes(
    compared: Compared, behaviour: Behaviour, least: int
) -> None:
    ids = compared.ids(204, 300)
    compared.expected(ids)
    with compared.front.doing(behaviour):
        answer = compared.same(ids, timeout=30.0)
    assert answer.account["received"].get("forward", 0) >= least
    time.sleep(SOON)
    assert compared.same(compared.ids(202, 100), output=4).account["received"] == {"forward": 96}


def test_a_server_that_is_only_slow_is_waited_for(compared: Compared) -> None:
    with compared.front.doing(fronts.hesitates):
        answer = compared.same(compared.ids(207, 100), output=4)
    assert (answer.account["local"], answer.account["received"]) == ("", {"forward": 96})


def test_an_answer_to_what_was_never_computed_is_not_believed(compared: Compared) -> None:
    ids = compared.ids(206, 100)
    compared.expected(ids)
    with compared.front.doing(answers(DONE)):
        answer = compared.same(ids, timeout=30.0)
    assert (answer.account["local"], answer.account["received"]) == ("undelivered", {})
    assert answer.account["computed"] == len(ids)
