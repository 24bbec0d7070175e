# SPDX-License-Identifier: Apache-2.0
"""One request that may wait for blocks from elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tandem_connector.contract.messages import MAX_BLOCKS
from tandem_connector.contract.prefill import PrefillReceipt
from tandem_connector.exchange.commands import LoadEnded
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EndReason,
    EngineId,
    Load,
    Purpose,
    RequestId,
    Seconds,
    WantId,
)

UNDELIVERED: Final = "undelivered"
"""The peer answered, but did not send all that was to come from it."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a request's blocks are to come from."""

    engine: EngineId
    stop: int
    """Index after the last block that is to be had there."""
    deadline: Seconds
    purpose: Purpose
    least: int = 1
    """Fewer blocks than this aren't worth it."""


class Phase(Enum):
    """How far its wait has come."""

    ASKED = auto()
    """Whether a peer computes it is being decided."""
    READY = auto()
    """It is decided where the blocks come from; none are waited for."""
    WAITING = auto()
    """A want is open, and the engine doesn't schedule the request."""
    BETWEEN = auto()
    """The want ended with blocks lacking; it is being decided who else is asked."""
    DONE = auto()


@dataclass(slots=True)
class Turn:
    """One request, and what it got."""

    request: RequestId
    hashes: Sequence[BlockHash]
    arrived: Seconds
    phase: Phase
    source: Source | None = None
    settled: bool = True
    """Asking has said its last word."""
    start: int = 0
    """Index of the first block that is waited for."""
    stop: int = 0
    blocks: tuple[BlockId, ...] = ()
    got: set[int] = field(default_factory=set)
    """Indices, from `start` on, that have come."""
    wants: dict[WantId, int] = field(default_factory=dict)
    """Open wants, and the index from `start` on at which each begins; the last one is waited for."""
    exposed_to: int = 0
    """Index, from `start` on, before which the last want ends: up to it, all may be asked for anew. 0 when it was served."""
    held_since: Seconds | None = None
    held: float = 0.0
    """Seconds for which it was held for blocks on their way for somebody else."""
    hold: float | None = None
    """Seconds for which it may be held; None before that had to be decided."""
    fetch: bool | None = None
    """Whether what a peer holds is fetched, or computed because that is sooner; None before that had to be decided."""
    ended: bool = False
    # -- the account
    asked: list[EngineId] = field(default_factory=list)
    """The engines that were asked to compute it, in this order."""
    local_blocks: int | None = None
    """In the engine's own cache when it was first looked for."""
    received: dict[Purpose, int] = field(default_factory=dict)
    """Blocks that came for the request."""
    waited: float = 0.0
    """Seconds, for all of it."""
    began: Seconds | None = None
    receipt: PrefillReceipt | None = None
    why_local: str = ""
    """Why the engine computes what a peer might have; empty while nothing is known to be amiss."""

    def lacking(self) -> int | None:
        """The first index from `start` on that hasn't come."""
        return next((index for index in range(len(self.blocks)) if index not in self.got), None)

    def reach(self, computed: int, usable: int) -> int:
        """Index after the last block that its source has and may be waited for, `computed` blocks being there already."""
        return 0 if self.source is None else min(self.source.stop, usable, len(self.hashes), computed + MAX_BLOCKS)

    def load(self, source: Source, first: int, most: int, ttl: Seconds) -> Load:
        """What to want of a source: so many blocks at most, from this one on."""
        return Load(
            request=self.request,
            purpose=source.purpose,
            hashes=tuple(self.hashes[self.start + first : min(self.stop, self.start + first + most)]),
            blocks=self.blocks[first : first + most],
            ttl=ttl,
            wait=source.purpose is Purpose.FORWARD,
        )

    def take(self, load: LoadEnded) -> bool:
        """Count what one of its wants has brought; whether that is the one which is waited for."""
        is_last = load.want == max(self.wants)
        first = self.wants.pop(load.want)
        self.received[load.purpose] = self.received.get(load.purpose, 0) + len(load.good)
        if load.reason is EndReason.RESET:
            self.got.clear()
        else:
            self.got.update(first + index for index in load.good)
        return is_last

    def lacking_blocks(self) -> tuple[BlockId, ...]:
        """The blocks that hold nothing."""
        return tuple(block for index, block in enumerate(self.blocks) if index not in self.got)

    def arrived_hashes(self) -> Sequence[BlockHash]:
        """Names of what has come, before the first block that hasn't."""
        first = self.lacking()
        return self.hashes[self.start : self.stop if first is None else self.start + first]
