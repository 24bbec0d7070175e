# SPDX-License-Identifier: Apache-2.0
"""Prefill requests over HTTP to servers that refuse, hang, break, talk nonsense and close; and what they see of an abort."""

import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from tandem_connector.asking.types import Answer, CallFailed, CallId, Failure
from tandem_connector.asking.wire import PrefillCall
from tandem_connector.exchange.types import Seconds
from tandem_connector.vllm.prefill import MAX_ANSWER, HttpSettings, PrefillCaller
from tests.asking.builders import A
from tests.asking.http_engine import (
    Handler,
    HttpEngine,
    answers,
    breaks,
    closes_amid_the_answer,
    closes_at_once,
    hangs,
    hangs_amid_the_answer,
    redirects,
    talks_nonsense,
    talks_without_end,
)

PATIENCE = 20.0


class Caller:
    """A caller whose reports are looked at one after another."""

    def __init__(self, settings: HttpSettings | None = None) -> None:
        self.ends: queue.Queue[tuple[CallId, Answer | CallFailed]] = queue.Queue()
        self.caller = PrefillCaller(lambda *end: self.ends.put(end), settings or HttpSettings())

    def calls(self, url: str, number: int = 1, timeout: float = PATIENCE) -> None:
        headers = {"Content-Type": "application/json", "X-Request-Id": f"turn-{number}"}
        self.caller.start(PrefillCall(CallId(number), A, url, headers, b'{"prompt":[1,2]}', Seconds(timeout)))

    def next(self) -> tuple[CallId, Answer | CallFailed]:
        return self.ends.get(timeout=PATIENCE)

    def failure(self) -> Failure:
        _, outcome = self.next()
        assert isinstance(outcome, CallFailed)
        return outcome.failure


@pytest.fixture
def caller() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    assert caller.caller.stop()


def test_an_answer_is_reported(caller: Caller) -> None:
    with HttpEngine(answers) as engine:
        caller.calls(engine.url, 7)

        assert caller.next() == (7, Answer(None))
        ((headers, body),) = engine.requests
        assert (headers["x-request-id"], headers["content-type"]) == ("turn-7", "application/json")
        assert "authorization" not in headers
        assert body == b'{"prompt":[1,2]}'


def test_the_connection_is_used_again(caller: Caller) -> None:
    with HttpEngine(answers) as engine:
        for number in range(3):
            caller.calls(engine.url, number)
            caller.next()

        assert len(engine.requests) == 3
        assert len(engine.connections) == 1


def test_calls_wait_side_by_side(caller: Caller) -> None:
    with HttpEngine(hangs) as hanging, HttpEngine(answers) as engine:
        for number in range(150):
            caller.calls(hanging.url, number)
        caller.calls(engine.url, 500)

        assert caller.next() == (500, Answer(None))


@pytest.mark.parametrize(
    ("handler", "failure"),
    [
        (breaks, Failure.SERVER_ERROR),
        (talks_nonsense, Failure.GARBAGE),
        (talks_without_end, Failure.GARBAGE),
        (redirects, Failure.GARBAGE),
        (closes_at_once, Failure.CLOSED),
        (closes_amid_the_answer, Failure.CLOSED),
    ],
)
def test_what_a_bad_server_does_has_a_name(caller: Caller, handler: Handler, failure: Failure) -> None:
    with HttpEngine(handler) as engine:
        caller.calls(engine.url)

        assert caller.failure() is failure


@pytest.mark.parametrize("handler", [hangs, hangs_amid_the_answer])
def test_a_server_that_hangs_is_left_after_the_timeout_and_sees_it(caller: Caller, handler: Handler) -> None:
    with HttpEngine(handler) as engine:
        caller.calls(engine.url, timeout=0.3)

        assert caller.failure() is Failure.TIMEOUT
        assert engine.aborted.wait(PATIENCE)


def test_nobody_at_the_address_is_a_refusal(caller: Caller) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        caller.calls(f"http://127.0.0.1:{unused.getsockname()[1]}/v1/completions")

        assert caller.failure() is Failure.REFUSED


def test_another_protocol_at_the_address_is_garbage(caller: Caller) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                connection.shutdown(socket.SHUT_WR)
                connection.recv(65_536)

        speaker = threading.Thread(target=speak, daemon=True)
        speaker.start()
        caller.calls(f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions")

        assert caller.failure() is Failure.GARBAGE
        speaker.join(PATIENCE)


@pytest.mark.parametrize("url", ["http://[nonsense/v1", "not a url", "http:///v1"])
def test_an_address_that_is_none_ends_the_call(caller: Caller, url: str) -> None:
    caller.calls(url)

    assert caller.failure() in {Failure.GARBAGE, Failure.REFUSED}


@pytest.mark.parametrize("handler", [hangs, hangs_amid_the_answer])
def test_the_server_sees_a_cancelled_call_and_the_caller_says_nothing_of_it(caller: Caller, handler: Handler) -> None:
    with HttpEngine(handler) as engine, HttpEngine(answers) as other:
        caller.calls(engine.url, 1)
        assert engine.began.wait(PATIENCE)

        caller.caller.cancel(CallId(1))

        assert engine.aborted.wait(PATIENCE)
        caller.calls(other.url, 2)
        assert caller.next() == (2, Answer(None))
        assert caller.ends.empty()


def test_a_call_that_is_cancelled_at_once_is_not_reported(caller: Caller) -> None:
    # The first hangs: an answer that comes before the cancelling is reported, and may.
    with HttpEngine(hangs) as engine, HttpEngine(answers) as other:
        caller.calls(engine.url, 1)
        caller.caller.cancel(CallId(1))
        caller.calls(other.url, 2)

        assert caller.next() == (2, Answer(None))
        assert caller.ends.empty()


def test_cancelling_what_has_ended_is_nothing(caller: Caller) -> None:
    with HttpEngine(answers) as engine:
        caller.calls(engine.url, 1)
        caller.next()

        caller.caller.cancel(CallId(1))
        caller.calls(engine.url, 2)

        assert caller.next() == (2, Answer(None))


def test_stopping_closes_what_runs_and_reports_nothing_more() -> None:
    caller = Caller()
    with HttpEngine(hangs) as engine:
        caller.calls(engine.url)
        assert engine.began.wait(PATIENCE)

        assert caller.caller.stop()

        assert engine.aborted.wait(PATIENCE)
        caller.calls(engine.url, 2)
        caller.caller.cancel(CallId(2))
        assert caller.caller.stop()
        assert caller.ends.empty()


def test_an_api_key_goes_along() -> None:
    caller = Caller(HttpSettings(api_key="key"))
    with HttpEngine(answers) as engine:
        caller.calls(engine.url)
        caller.next()
        assert caller.caller.stop()

        assert engine.requests[0][0]["authorization"] == "Bearer key"


def test_an_endless_answer_is_read_up_to_its_bound_only(caller: Caller) -> None:
    with HttpEngine(talks_without_end) as engine:
        caller.calls(engine.url)

        _, outcome = caller.next()

        assert outcome == CallFailed(Failure.GARBAGE, f"an answer of more than {MAX_ANSWER} bytes")
        assert engine.began.is_set()
