# SPDX-License-Identifier: Apache-2.0
"""The prefill request and its answer, as bytes: vLLM's `POST /v1/completions` with token ids, for one output token."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tandem_connector.asking.commands import StartCall
from tandem_connector.asking.types import Answer, CallFailed, CallId, Failure
from tandem_connector.contract.peers import Address
from tandem_connector.contract.prefill import MAX_TURN, VERSION, PrefillNote, Seal, note_params, read_receipt
from tandem_connector.contract.types import rank_of
from tandem_connector.exchange.types import EngineId, Seconds

TRACE_HEADERS: Final = ("traceparent", "tracestate")
"""W3C trace context, which vLLM reads."""
RANK_HEADER: Final = "X-data-parallel-rank"
"""By which vLLM's server knows the engine that is meant, where it has several."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._:-]")
_TRACE: Final = re.compile(r"[\x20-\x7e]{1,1024}")
_FAILURES: Final = {
    404: Failure.UNKNOWN_MODEL,
    408: Failure.BUSY,
    429: Failure.BUSY,
}
_DONE: Final = {"length", "stop"}
_DETAIL: Final = 200


@dataclass(frozen=True, slots=True)
class PrefillCall:
    """One HTTP request, ready to be sent."""

    call: CallId
    engine: EngineId
    """Which incarnation is to answer."""
    url: str
    headers: dict[str, str]
    body: bytes
    timeout: Seconds
    """From the beginning of the connection to the end of the answer."""


class _Body(msgspec.Struct, omit_defaults=True):
    """Fields of vLLM's `CompletionRequest`."""

    model: str
    prompt: list[int]
    kv_transfer_params: dict[str, object]
    max_tokens: int | None = None
    temperature: float | None = None
    cache_salt: str | None = None
    priority: int = 0


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], Meta(min_length=1, max_length=1)]
    kv_transfer_params: Any = None


def prefill_call(start: StartCall, *, me: EngineId, model: str, seal: Seal) -> PrefillCall:
    """The HTTP request for a call.

    Args:
        start: what is to be called.
        me: this incarnation.
        model: the served model's name, used for requests without a LoRA adapter.
        seal: the resource's.
    """
    arrival = start.arrival
    # The id holds what a client sent as X-Request-Id, and becomes a header here.
    turn = _UNSAFE.sub("_", arrival.request)[:MAX_TURN] or "_"
    note = PrefillNote(VERSION, me, start.engine, start.held_tokens, turn)
    body = _Body(
        model=arrival.lora or model,
        prompt=arrival.prompt,
        kv_transfer_params=note_params(seal.on(note, arrival.name)),
        max_tokens=1,
        temperature=0.0,
        cache_salt=arrival.salt,
        priority=arrival.priority,
    )
    headers = {"Content-Type": "application/json", "X-Request-Id": turn}
    if (rank := rank_of(start.engine)) is not None:
        headers[RANK_HEADER] = str(rank)
    headers |= {name: arrival.trace[name] for name in TRACE_HEADERS if _TRACE.fullmatch(arrival.trace.get(name, ""))}
    return PrefillCall(start.call, start.engine, _url(start.address), headers, msgspec.json.encode(body), start.timeout)


def read_answer(status: int, content: bytes, engine: EngineId) -> Answer | CallFailed:
    """What an HTTP response means, whatever it holds; `engine` was asked."""
    if status != 200:
        return CallFailed(_failure_of(status), f"status {status}: {_printable(content)}")
    try:
        completion = msgspec.json.decode(content, type=_Completion)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return CallFailed(Failure.GARBAGE, f"{error}: {_printable(content)}")
    reason = completion.choices[0].finish_reason
    if reason not in _DONE:
        return CallFailed(Failure.SERVER_ERROR, f"finish_reason {_printable(str(reason).encode())}")
    receipt = read_receipt(completion.kv_transfer_params)
    if receipt is not None and receipt.prefill != engine:
        return CallFailed(Failure.OTHER_ENGINE, f"{receipt.prefill} answered")
    return Answer(receipt)


def _failure_of(status: int) -> Failure:
    if status >= 500:
        return Failure.SERVER_ERROR
    if status in _FAILURES:
        return _FAILURES[status]
    return Failure.REJECTED if status >= 400 else Failure.GARBAGE


def _printable(content: bytes) -> str:
    return ascii(content[:_DETAIL].decode(errors="replace"))


def _url(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{address.http_port}/v1/completions"
