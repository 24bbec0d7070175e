# SPDX-License-Identifier: Apache-2.0
"""One want of a peer: which of its blocks are awaited, ready, in flight and done."""

from dataclasses import dataclass, field
from enum import Enum, auto

from tandem_connector.contract.types import OfferId
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EngineId,
    Index,
    JobId,
    Purpose,
    Seconds,
    WantId,
)


class ServedState(Enum):
    """Who is told what when the last write has ended."""

    OPEN = auto()
    CANCELLED = auto()
    """The wanter gets the acknowledgement that it waits for."""
    ABANDONED = auto()
    """The wanter is gone: nobody."""


@dataclass(slots=True, eq=False)
class ServedWant:
    """An index is in one place: `pending`, `ready`, in a job of `jobs`, counted in `written`, or in `missing`."""

    peer: EngineId
    id: WantId
    purpose: Purpose
    hashes: tuple[BlockHash, ...]
    destinations: tuple[BlockId, ...]
    wait: bool
    begun: Seconds
    deadline: Seconds
    offer: OfferId | None
    pending: set[Index] = field(default_factory=set)
    """Not in the cache when last looked for."""
    ready: set[Index] = field(default_factory=set)
    """Were in the cache, and wait until fewer blocks are pinned."""
    jobs: set[JobId] = field(default_factory=set)
    written: int = 0
    missing: list[Index] = field(default_factory=list)
    uncertain: bool = False
    """Some of `missing` may still arrive, by a write that broke."""
    state: ServedState = ServedState.OPEN
    patient: bool = True
    """A request that computes what is pending may still come."""

    @property
    def over(self) -> bool:
        """Nothing is in flight and nothing will be."""
        return not (self.pending or self.ready or self.jobs)
