# SPDX-License-Identifier: Apache-2.0
"""Prompts whose blocks have readable names, peer tables, and an asking engine to which things happen."""

from collections.abc import Sequence
from typing import TypeVar

from tandem_connector.asking.asking import Asking
from tandem_connector.asking.commands import Command
from tandem_connector.asking.settings import AskingSettings
from tandem_connector.asking.types import Answer, Arrival, CallFailed, CallId, Failure, Obstacle
from tandem_connector.contract.peers import Address, Parallelism, Peer
from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import EngineState, Role
from tandem_connector.exchange.types import BlockHash, EngineId, RequestId, Seconds

BLOCK = 16
SETTINGS = AskingSettings(block_size=BLOCK)
A, B, C = EngineId("a-1"), EngineId("b-1"), EngineId("c-1")

CommandT = TypeVar("CommandT")


def names(stop: int, chain: str = "x", start: int = 0) -> tuple[BlockHash, ...]:
    """Hashes of consecutive blocks of a conversation."""
    return tuple(BlockHash(f"{chain}-{position:06}".encode()) for position in range(start, stop))


def an_arrival(
    request: str = "r",
    tokens: int = 1_000,
    *,
    chain: str = "x",
    obstacles: Sequence[Obstacle] = (),
    lora: str | None = None,
    salt: str | None = None,
) -> Arrival:
    return Arrival(
        RequestId(request),
        list(range(tokens)),
        names(tokens // BLOCK, chain),
        frozenset(obstacles),
        lora=lora,
        salt=salt,
    )


def a_peer(
    engine: EngineId,
    *,
    state: EngineState = EngineState.READY,
    role: Role = Role.PREFILL,
) -> Peer:
    return Peer(
        engine=engine,
        pod=engine,
        role=role,
        state=state,
        address=Address(host="10.0.0.1", http_port=8000, side_channel_port=5600),
        parallelism=Parallelism(tensor=1),
        revision="r1",
    )


class Decode:
    """A decode engine's asking, with the time."""

    def __init__(self, settings: AskingSettings = SETTINGS) -> None:
        self.asking = Asking(settings)
        self.now = Seconds(100.0)

    def with_peers(self, *engines: EngineId) -> "Decode":
        """These Ps, ready and connected."""
        self.asking.table([a_peer(engine) for engine in engines], self.now)
        for engine in engines:
            self.asking.peer_reachable(engine)
        return self

    def after(self, seconds: float) -> "Decode":
        self.now = Seconds(self.now + seconds)
        self.asking.tick(self.now)
        return self

    def gets(self, arrival: Arrival, held_blocks: int = 0) -> "Decode":
        self.asking.arrived(arrival, held_blocks, self.now)
        return self

    def ends(self, request: str = "r", tokens: int = 1_100, chain: str = "x") -> "Decode":
        """The request ends with so many tokens, prompt and output."""
        self.asking.ended(RequestId(request), names(tokens // BLOCK, chain), self.now)
        return self

    def answered(self, call: CallId) -> "Decode":
        self.asking.call_ended(call, Answer(None), self.now)
        return self

    def failed(self, call: CallId, failure: Failure = Failure.REFUSED) -> "Decode":
        self.asking.call_ended(call, CallFailed(failure, ""), self.now)
        return self

    def commands(self) -> list[Command]:
        return self.asking.commands()

    def take(self, kind: type[CommandT]) -> list[CommandT]:
        """The commands of this kind since the last look; the others are dropped."""
        return [command for command in self.commands() if isinstance(command, kind)]

    def only(self, kind: type[CommandT]) -> CommandT:
        """The one command of this kind since the last look."""
        (command,) = self.take(kind)
        return command


def settings(
    *, above_tokens: int = 256, reverse: Reverse = Reverse.PUSH_AND_FETCH, attempts: int = 3
) -> AskingSettings:
    return AskingSettings(block_size=BLOCK, above_tokens=above_tokens, reverse=reverse, attempts=attempts)
