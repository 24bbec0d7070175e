# SPDX-License-Identifier: Apache-2.0
"""The prefill request and its answer as bytes."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.asking.commands import StartCall
from tandem_connector.asking.types import Answer, Arrival, CallFailed, CallId, Failure
from tandem_connector.asking.wire import PrefillCall, prefill_call, read_answer
from tandem_connector.contract.peers import Address
from tandem_connector.contract.prefill import (
    PrefillNote,
    PrefillReceipt,
    Seal,
    read_note,
    receipt_params,
)
from tandem_connector.exchange.types import EngineId, RequestId, Seconds
from tests.asking.builders import A, an_arrival

ME = EngineId("me-1")
SEAL = Seal(b"a secret of the resource")
RECEIPT = PrefillReceipt(1, A, 40, 0, 0)


def a_call(arrival: Arrival, host: str = "10.0.0.1", engine: EngineId = A) -> PrefillCall:
    address = Address(host=host, http_port=8000, side_channel_port=5600)
    start = StartCall(CallId(1), engine, address, arrival, 16, Seconds(9.0))
    return prefill_call(start, me=ME, model="served", seal=SEAL)


def body(call: PrefillCall) -> dict[str, object]:
    content: dict[str, object] = msgspec.json.decode(call.body)
    return content


def an_answer(finish_reason: object = "length", **fields: object) -> bytes:
    return msgspec.json.encode({"id": "x", "choices": [{"text": "", "finish_reason": finish_reason}], **fields})


def test_the_request_asks_for_one_token_after_the_prompt() -> None:
    content = body(a_call(an_arrival(tokens=40)))

    del content["kv_transfer_params"]
    assert content == {"model": "served", "prompt": list(range(40)), "max_tokens": 1, "temperature": 0.0}


def test_adapter_salt_and_priority_are_as_in_the_request() -> None:
    arrival = replace(an_arrival(lora="adapter", salt="salt"), priority=-3)

    content = body(a_call(arrival))

    assert (content["model"], content["cache_salt"], content["priority"]) == ("adapter", "salt", -3)


def test_the_note_is_accepted_by_the_engine_that_is_asked() -> None:
    arrival = an_arrival(tokens=40)

    note = read_note(body(a_call(arrival))["kv_transfer_params"], SEAL, arrival.name, A, {ME})

    assert isinstance(note, PrefillNote)
    assert (note.decode, note.held_tokens, note.turn) == (ME, 16, "r")


def test_trace_context_goes_along_and_nothing_else() -> None:
    arrival = replace(
        an_arrival(), trace={"traceparent": "00-ab-cd-01", "tracestate": "bad\r\nX: 1", "authorization": "secret"}
    )

    headers = a_call(arrival).headers

    assert headers == {"Content-Type": "application/json", "X-Request-Id": "r", "traceparent": "00-ab-cd-01"}


def test_what_a_client_put_into_the_request_id_cannot_break_the_header() -> None:
    arrival = replace(an_arrival(), request=RequestId("cmpl-\r\nHost: evil\N{SNOWMAN}" + "x" * 500))

    turn = a_call(arrival).headers["X-Request-Id"]

    assert turn.startswith("cmpl-__Host:_evil_x")
    assert len(turn) == 256


def test_a_data_parallel_rank_is_named_to_its_server_and_an_engine_alone_is_not() -> None:
    assert a_call(an_arrival(), engine=EngineId("a-1_dp3")).headers["X-data-parallel-rank"] == "3"
    assert "X-data-parallel-rank" not in a_call(an_arrival()).headers


def test_an_ipv6_address_is_put_into_brackets() -> None:
    assert a_call(an_arrival(), "fd00::1").url == "http://[fd00::1]:8000/v1/completions"
    assert a_call(an_arrival()).url == "http://10.0.0.1:8000/v1/completions"


@pytest.mark.parametrize("reason", ["length", "stop"])
def test_a_finished_completion_is_an_answer(reason: str) -> None:
    assert read_answer(200, an_answer(reason), A) == Answer(None)


def test_the_receipt_comes_with_the_answer() -> None:
    content = an_answer(kv_transfer_params=receipt_params(RECEIPT))

    assert read_answer(200, content, A) == Answer(RECEIPT)


def test_a_receipt_that_is_not_understood_is_no_reason_to_compute_again() -> None:
    assert read_answer(200, an_answer(kv_transfer_params={"tandem": 3}), A) == Answer(None)


@pytest.mark.parametrize(
    ("status", "content", "failure"),
    [
        (500, b"", Failure.SERVER_ERROR),
        (503, b"", Failure.SERVER_ERROR),
        (404, b"{}", Failure.UNKNOWN_MODEL),
        (408, b"", Failure.BUSY),
        (429, b"", Failure.BUSY),
        (400, b"too long", Failure.REJECTED),
        (401, b"", Failure.REJECTED),
        (307, b"", Failure.GARBAGE),
        (204, b"", Failure.GARBAGE),
        (200, b"", Failure.GARBAGE),
        (200, b"\xff\xfe", Failure.GARBAGE),
        (200, b"<html>", Failure.GARBAGE),
        (200, b"[]", Failure.GARBAGE),
        (200, b'{"choices":[]}', Failure.GARBAGE),
        (200, b'{"choices":[{"finish_reason":7}]}', Failure.GARBAGE),
        (200, b"[" * 100_000, Failure.GARBAGE),
        (200, an_answer("abort"), Failure.SERVER_ERROR),
        (200, an_answer(None), Failure.SERVER_ERROR),
        (200, an_answer(kv_transfer_params=receipt_params(RECEIPT)), Failure.OTHER_ENGINE),
    ],
)
def test_everything_else_is_a_failure_of_its_kind(status: int, content: bytes, failure: Failure) -> None:
    outcome = read_answer(status, content, EngineId("b-1"))

    assert isinstance(outcome, CallFailed)
    assert outcome.failure is failure


@given(status=st.integers(100, 599), content=st.binary(max_size=300))
def test_no_bytes_raise_and_the_detail_is_one_short_line(status: int, content: bytes) -> None:
    outcome = read_answer(status, content, A)

    assert isinstance(outcome, CallFailed)
    assert outcome.detail.isprintable()
