# SPDX-License-Identifier: Apache-2.0
"""One want of this engine: what it awaits, and who may use its blocks."""

from dataclasses import dataclass, field
from enum import Enum, auto

from tandem_connector.exchange.types import BlockHash, BlockId, EngineId, Index, Landing, Load, Purpose, Seconds, WantId


class WantState(Enum):
    """Life of an own want; from the first state it can only go on, and ends by being forgotten.

    In all states the want holds one reference to each of its blocks.
    """

    OPEN = auto()
    """Somebody waits for it."""
    CANCELLING = auto()
    """Nobody waits; the holder was asked to stop, and has not said that it has."""
    QUARANTINED = auto()
    """Nobody waits, and the holder doesn't answer. Back to CANCELLING when it is heard again."""


@dataclass(slots=True, eq=False)
class OwnWant:
    """What was asked of a holder, and how far it came."""

    id: WantId
    peer: EngineId
    asked: Load | Landing
    opened: Seconds
    expires: Seconds
    awaited: set[Index]
    """Neither written nor reported missing."""
    received: list[Index] = field(default_factory=list)
    state: WantState = WantState.OPEN
    unsafe_until: Seconds | None = None
    """Until when a write that broke may still arrive."""

    @property
    def purpose(self) -> Purpose:
        """Why it is wanted."""
        return self.asked.purpose

    @property
    def hashes(self) -> tuple[BlockHash, ...]:
        """What is wanted."""
        return self.asked.hashes

    @property
    def blocks(self) -> tuple[BlockId, ...]:
        """Where it is to be."""
        return self.asked.blocks

    def good(self) -> tuple[Index, ...]:
        """What arrived, in order."""
        return tuple(sorted(self.received))

    def bad(self) -> tuple[Index, ...]:
        """What did not arrive, in order."""
        received = set(self.received)
        return tuple(Index(index) for index in range(len(self.hashes)) if index not in received)

    def prefix(self) -> list[tuple[BlockHash, BlockId]]:
        """Names and places of what arrived before the first that did not."""
        length = 0
        for expected, index in enumerate(sorted(self.received)):
            if index != expected:
                break
            length += 1
        return list(zip(self.hashes[:length], self.blocks[:length], strict=True))
