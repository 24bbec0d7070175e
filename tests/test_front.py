# SPDX-License-Identifier: Apache-2.0
"""The place before an engine's HTTP server does what it says, seen by the connector's own caller."""

import queue
from collections.abc import Iterator

import pytest

from e2e.exchange import front as fronts
from e2e.exchange.front import Behaviour, Front, answers
from tandem_connector.asking.types import Answer, CallFailed, CallId, Failure
from tandem_connector.asking.wire import PrefillCall
from tandem_connector.exchange.types import Seconds
from tandem_connector.vllm.prefill import PrefillCaller
from tests.asking.builders import A
from tests.asking.http_engine import HttpEngine, hangs
from tests.asking.http_engine import answers as answers_well

PATIENCE = 20.0
ONE = CallId(1)


class Caller:
    """Makes one call after another."""

    def __init__(self) -> None:
        self._ends: queue.Queue[Answer | CallFailed] = queue.Queue()
        self.caller = PrefillCaller(lambda _, outcome: self._ends.put(outcome))

    def begins(self, front: Front, timeout: float = PATIENCE) -> None:
        url = f"http://127.0.0.1:{front.port}/v1/completions"
        self.caller.start(PrefillCall(ONE, A, url, {}, b'{"prompt":[1,2]}', Seconds(timeout)))

    def calls(self, front: Front, timeout: float = PATIENCE) -> Answer | Failure:
        self.begins(front, timeout)
        outcome = self._ends.get(timeout=PATIENCE)
        return outcome if isinstance(outcome, Answer) else outcome.failure


@pytest.fixture
def caller() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    assert caller.caller.stop()


def test_requests_and_answers_are_passed_on(caller: Caller) -> None:
    with HttpEngine(answers_well) as engine, Front(engine.port) as front:
        for number in (1, 2):
            assert caller.calls(front) == Answer(None)
            assert front.requests == len(engine.requests) == number
        assert engine.requests[0][1] == b'{"prompt":[1,2]}'


def test_a_client_that_hangs_up_is_passed_on(caller: Caller) -> None:
    with HttpEngine(hangs) as engine, Front(engine.port) as front:
        caller.begins(front)
        assert engine.began.wait(PATIENCE)
        caller.caller.cancel(ONE)
        assert engine.aborted.wait(PATIENCE)


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [
        (fronts.hangs, Failure.TIMEOUT),
        (fronts.hangs_after_the_prefill, Failure.TIMEOUT),
        (fronts.drips_headers, Failure.TIMEOUT),
        (fronts.drips_a_body, Failure.TIMEOUT),
        (fronts.has_headers_without_end, Failure.GARBAGE),
        (fronts.has_a_body_without_end, Failure.GARBAGE),
        (fronts.speaks_another_protocol, Failure.GARBAGE),
        (fronts.breaks_off, Failure.CLOSED),
        (fronts.breaks_off_after_the_prefill, Failure.CLOSED),
        (fronts.resets, Failure.CLOSED),
        (answers(b"", "500 Internal Server Error"), Failure.SERVER_ERROR),
        (answers({"choices": []}), Failure.GARBAGE),
    ],
)
def test_it_behaves_as_told_and_afterwards_as_before(caller: Caller, behaviour: Behaviour, failure: Failure) -> None:
    with HttpEngine(answers_well) as engine, Front(engine.port) as front:
        with front.doing(behaviour):
            assert caller.calls(front, timeout=1.0) is failure
        assert caller.calls(front) == Answer(None)


def test_it_refuses_for_a_while_and_listens_again_at_the_same_port(caller: Caller) -> None:
    with HttpEngine(answers_well) as engine, Front(engine.port) as front:
        with front.refusing():
            assert caller.calls(front) is Failure.REFUSED
        assert caller.calls(front) == Answer(None)
