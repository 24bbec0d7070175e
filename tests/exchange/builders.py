# SPDX-License-Identifier: Apache-2.0
"""One engine's exchange with a toy pool, and short ways to say what happens to it."""

from collections.abc import Iterable
from typing import TypeVar

from tandem_connector.contract.messages import Envelope, Message, Purpose
from tandem_connector.exchange.commands import Command, PostWrite, Send
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EngineId,
    FreshBlocks,
    Index,
    Load,
    RequestId,
    Seconds,
    StepId,
    WantId,
    Write,
    WriteEnd,
)
from tests.exchange.toy_pool import ToyPool

ME = EngineId("me")
PEER = EngineId("peer")
OTHER = EngineId("other")
PEER_BLOCKS = 1_000

C = TypeVar("C")


def name(position: int, chain: str = "a") -> BlockHash:
    """The hash of a chain's block."""
    return BlockHash(f"{chain}-{position:06}".encode())


def names(start: int, stop: int, chain: str = "a") -> tuple[BlockHash, ...]:
    """The hashes of some consecutive blocks of a chain."""
    return tuple(name(position, chain) for position in range(start, stop))


def indices(*values: int) -> tuple[Index, ...]:
    return tuple(Index(value) for value in values)


def places(*values: int) -> tuple[BlockId, ...]:
    return tuple(BlockId(value) for value in values)


class Engine:
    """Drives an exchange and keeps its commands until they are looked at."""

    def __init__(self, blocks: int = 100, settings: ExchangeSettings | None = None) -> None:
        self.pool = ToyPool(blocks)
        self.exchange = Exchange(ME, self.pool, settings)
        self.now = Seconds(100.0)
        self.requests = 0

    def with_peer(self, peer: EngineId = PEER, blocks: int = PEER_BLOCKS, *, publishes: bool = False) -> "Engine":
        self.exchange.peer_connected(peer, blocks, self.now, publishes=publishes)
        return self

    def at(self, seconds: float) -> "Engine":
        """Let so many seconds pass, with a tick at their end."""
        self.now = Seconds(self.now + seconds)
        self.exchange.tick(self.now)
        return self

    def commands(self) -> list[Command]:
        return self.exchange.commands()

    def take(self, kind: type[C]) -> list[C]:
        """All commands since the last look, those of this kind only."""
        return [command for command in self.commands() if isinstance(command, kind)]

    def messages(self) -> list[Message]:
        return [send.message for send in self.take(Send)]

    def writes(self) -> list[Write]:
        return [post.write for post in self.take(PostWrite)]

    def hears(self, message: Message, peer: EngineId = PEER, target: EngineId = ME) -> "Engine":
        self.exchange.receive(Envelope(peer, target, message), self.now)
        return self

    def wants(
        self,
        hashes: tuple[BlockHash, ...],
        *,
        request: str = "request",
        peer: EngineId = PEER,
        ttl: float = 10.0,
        wait: bool = True,
    ) -> WantId:
        """A request takes blocks and wants their content from a peer."""
        blocks = self.pool.take(len(hashes))
        assert blocks is not None
        load = Load(RequestId(request), Purpose.FORWARD, hashes, blocks, Seconds(ttl), wait)
        want = self.exchange.want(peer, load, self.now)
        assert want is not None
        return want

    def received(self, want: WantId, *values: int) -> "Engine":
        self.exchange.want_received(want, indices(*values), self.now)
        return self

    def wrote(self, write: Write, *, written: bool = True, uncertain: bool = False) -> "Engine":
        failed = WriteEnd.UNCERTAIN if uncertain else WriteEnd.NOT_WRITTEN
        self.exchange.write_ended(write.job, WriteEnd.WRITTEN if written else failed, self.now)
        return self

    def steps(self, step: int, hashes: Iterable[BlockHash], request: str = "r", position: int = 0) -> FreshBlocks:
        """A step that fills blocks with these names is scheduled, for a request that holds them."""
        named = tuple(hashes)
        blocks = self.pool.take(len(named))
        assert blocks is not None
        for block_hash, block in zip(named, blocks, strict=True):
            self.pool.name(block_hash, block)
        fresh = FreshBlocks(RequestId(request), position, named, blocks)
        self.exchange.step_scheduled(StepId(step), [fresh])
        return fresh
