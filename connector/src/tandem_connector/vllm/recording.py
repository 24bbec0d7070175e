# SPDX-License-Identifier: Apache-2.0
"""An exchange that writes down all that goes in and comes out, so that `replay` can go through it again."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from tandem_connector.exchange.commands import Command
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockHash, BlockId, Derivation, EngineId, Pool
from tandem_connector.vllm.journal import Journal

Result = TypeVar("Result")

BEGIN: Final = "exchange"
"""Kind of the first entry: the engine and its settings."""
COMMANDS: Final = "commands"
POOL: Final = "pool"
"""Kind of what the exchange asked of the pool, and got: name, arguments, result."""
EVENTS: Final = (
    "peer_connected",
    "peer_silent",
    "peer_back",
    "peer_gone",
    "peer_parted",
    "peer_returned",
    "receive",
    "want",
    "cancel",
    "request_produces",
    "offers_go_to",
    "request_ended",
    "step_scheduled",
    "step_finished",
    "write_ended",
    "want_received",
    "offer",
    "move",
    "drain",
    "stay",
    "reset",
    "shutdown",
    "tick",
    "set_waiting_tokens",
)
"""The methods that change an exchange; an entry of this kind holds the arguments by name."""


class RecordedExchange(Exchange):
    """Does the same as an exchange, and tells the journal."""

    def __init__(self, engine: EngineId, pool: Pool, settings: ExchangeSettings | None, journal: Journal) -> None:
        settings = settings or ExchangeSettings()
        journal.write(BEGIN, {"engine": engine, "settings": settings})
        super().__init__(engine, _RecordedPool(pool, journal), settings)
        self._journal = journal
        self._inside = False
        for name in EVENTS:
            setattr(self, name, self._recorded(name, getattr(self, name)))

    def commands(self) -> list[Command]:
        """What to do, since the last call, in order."""
        commands = super().commands()
        if commands:
            self._journal.write(COMMANDS, described(commands))
        return commands

    def _recorded(self, name: str, method: Callable[..., object]) -> Callable[..., object]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def recorded(*positional: object, **named: object) -> object:
            if self._inside:  # one event calls another: replay will, too
                return method(*positional, **named)
            arguments = {
                parameter: tuple(value) if isinstance(value, Iterator) else value
                for parameter, value in signature.bind(*positional, **named).arguments.items()
            }
            self._journal.write(name, arguments)
            self._inside = True
            try:
                return method(**arguments)
            finally:
                self._inside = False

        return recorded


def described(commands: Sequence[Command]) -> list[tuple[str, Command]]:
    """Commands with the names of their kinds, for the journal."""
    return [(type(command).__name__, command) for command in commands]


class _RecordedPool:
    def __init__(self, pool: Pool, journal: Journal) -> None:
        self._pool = pool
        self._journal = journal

    def lookup(self, block_hash: BlockHash) -> BlockId | None:
        return self._told("lookup", (block_hash,), self._pool.lookup(block_hash))

    def pin(self, blocks: Sequence[BlockId]) -> None:
        self._pool.pin(blocks)
        self._told("pin", (tuple(blocks),), None)

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        self._pool.unpin(blocks)
        self._told("unpin", (tuple(blocks),), None)

    def room(self, landing: int) -> int:
        return self._told("room", (landing,), self._pool.room(landing))

    def take(self, count: int) -> tuple[BlockId, ...] | None:
        return self._told("take", (count,), self._pool.take(count))

    def commit(self, block_hash: BlockHash, block: BlockId, position: int, derivation: Derivation | None) -> bool:
        arguments = (block_hash, block, position, derivation)
        return self._told("commit", arguments, self._pool.commit(*arguments))

    def derivations(self, hashes: Sequence[BlockHash]) -> tuple[Derivation, ...] | None:
        return self._told("derivations", (tuple(hashes),), self._pool.derivations(hashes))

    def _told(self, name: str, arguments: tuple[object, ...], result: Result) -> Result:
        self._journal.write(POOL, (name, arguments, result))
        return result
