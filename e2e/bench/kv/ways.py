# SPDX-License-Identifier: Apache-2.0
"""The ways in which a conversation's turn can be answered: by one engine, or by upstream's two legs, run here."""

from dataclasses import dataclass
from typing import Final, Protocol

from e2e.bench.kv.client import Reply, complete
from e2e.bench.kv.script import Conversation
from e2e.exchange.engines import Engine
from e2e.exchange.numbers import value_of

_FIRST_HANDLE: Final[dict[str, object]] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""What a router sends with a prefill that finds nothing at decode; upstream's `toy_proxy_server.py`."""


@dataclass(frozen=True)
class Turn:
    """One answered turn, as its client saw it."""

    request: str
    """Its X-Request-Id."""
    number: int
    """In its conversation, from 0 on."""
    prompt: int
    output: int
    held_before: int
    """Tokens whose KV somebody had before: all of the turn before, but for its last token, which is never computed."""
    began: float
    """When its client asked, on the machine's monotonic clock."""
    seconds_to_first_token: float
    seconds: float
    computed: int
    """Prompt tokens that the engine which answered computed, by its own word."""
    computed_by_prefill: int = 0
    """And those of the engine that was asked before; 0 if there is none, or only the engines themselves know."""


class Way(Protocol):
    """How a turn is answered."""

    name: str

    def take(self, conversation: Conversation, request: str, number: int, tokens: int, output: int) -> Turn:
        """Say so many new tokens, and read the whole answer."""
        ...


class OneEngine:
    """A client that knows one engine: a plain one, or a decode engine of Tandem, streamed."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self.engine = engine

    def take(self, conversation: Conversation, request: str, number: int, tokens: int, output: int) -> Turn:
        """See `Way.take`."""
        held = max(0, len(conversation.said) - 1)
        reply = complete(self.engine.url, request, conversation.ask(tokens), output=output)
        conversation.answered(reply)
        first = reply.seconds_to_first_token
        assert first is not None
        return Turn(
            request=request,
            number=number,
            prompt=reply.prompt,
            output=output,
            held_before=held,
            began=reply.began,
            seconds_to_first_token=first,
            seconds=reply.seconds,
            computed=reply.prompt - reply.cached,
        )


class TwoLegs:
    """Upstream's pull: prefill first, then decode with what prefill said.

    Streamed answers don't carry the handle that the next turn's prefill needs to read back from decode. With
    `bidirectional` they are therefore read as a whole, and the time to the first token is that of prefill's leg, as seen
    here, and what decode's metrics say of its own.
    """

    def __init__(self, name: str, prefill: Engine, decode: Engine, *, bidirectional: bool) -> None:
        self.name = name
        self.prefill, self.decode = prefill, decode
        self._bidirectional = bidirectional

    def take(self, conversation: Conversation, request: str, number: int, tokens: int, output: int) -> Turn:
        """See `Way.take`."""
        held = max(0, len(conversation.said) - 1)
        prompt = conversation.ask(tokens)
        handle = conversation.handle or _FIRST_HANDLE
        first_leg = complete(self.prefill.url, request, prompt, output=1, stream=False, params=handle)
        second_leg, first = self._decode(request, prompt, output, first_leg)
        conversation.handle = second_leg.params
        conversation.answered(second_leg)
        return Turn(
            request=request,
            number=number,
            prompt=second_leg.prompt,
            output=output,
            held_before=held,
            began=first_leg.began,
            seconds_to_first_token=first_leg.seconds + first,
            seconds=first_leg.seconds + second_leg.seconds,
            computed=second_leg.prompt - second_leg.cached,
            computed_by_prefill=first_leg.prompt - first_leg.cached,
        )

    def _decode(self, request: str, prompt: list[int], output: int, first_leg: Reply) -> tuple[Reply, float]:
        # With this decode would say of its own cache what prefill said of its.
        params = {
            key: value for key, value in (first_leg.params or {}).items() if key != "remote_prefill_cached_tokens"
        }
        if not self._bidirectional:
            reply = complete(self.decode.url, request, prompt, output=output, params=params)
            assert reply.seconds_to_first_token is not None
            return reply, reply.seconds_to_first_token
        before = _first_tokens(self.decode)
        reply = complete(self.decode.url, request, prompt, output=output, stream=False, params=params)
        seconds, count = (now - then for now, then in zip(_first_tokens(self.decode), before, strict=True))
        # Of all that were answered meanwhile: with several conversations at once it is their mean.
        return reply, seconds / count


def _first_tokens(engine: Engine) -> tuple[float, float]:
    text = engine.metrics()
    return value_of(text, "vllm:time_to_first_token_seconds_sum"), value_of(
        text, "vllm:time_to_first_token_seconds_count"
    )
