# SPDX-License-Identifier: Apache-2.0
"""What the exchange is told and what it asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, Protocol

from tandem_connector.contract.types import BlockHash, EngineId, WantId

BlockId = NewType("BlockId", int)
"""Place of a block in an engine's own pool."""
Index = NewType("Index", int)
"""Position of a block within a want."""
JobId = NewType("JobId", int)
"""Names one write that the workers were asked for."""
Seconds = NewType("Seconds", float)
"""A duration, or a time of this process's monotonic clock; never another machine's clock."""


class Purpose(StrEnum):
    """Why blocks are wanted; the direction and cause that metrics are labelled with."""

    FORWARD = "forward"
    """Decode wants what prefill computes, for a request that waits."""
    REVERSE_PUSH = "reverse_push"
    """Prefill takes what decode offered: landing blocks, nobody waits."""
    REVERSE_FETCH = "reverse_fetch"
    """Prefill wants what decode has, for a request that waits."""
    MOVE = "move"
    """A successor takes what a draining engine offered."""


class EndReason(StrEnum):
    """Why a want ended."""

    COMPLETE = "complete"
    MISSING = "missing"
    """The holder said that the rest will not come."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    PEER_GONE = "peer_gone"


class Pool(Protocol):
    """The engine's block pool, as far as the exchange touches it. Called on the scheduler's thread only."""

    def lookup(self, block_hash: BlockHash) -> BlockId | None:
        """The block cached under this name, or None."""
        ...

    def pin(self, blocks: Sequence[BlockId]) -> None:
        """Add a reference to each, so that it is neither freed nor evicted."""
        ...

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        """Take one reference from each; a block without any becomes evictable, or free if it has no name."""
        ...

    def take(self, count: int) -> tuple[BlockId, ...] | None:
        """`count` blocks without name, each with one reference; None when the landing share or the pool is exhausted."""
        ...

    def commit(self, block_hash: BlockHash, block: BlockId, position: int) -> bool:
        """Put a written block into the prefix cache under its name; False when the name is there already.

        `position` is the block's index in its token sequence.
        """
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """A job for the workers: write own blocks `sources` into blocks `destinations` of the peer."""

    job: JobId
    peer: EngineId
    want: WantId
    indices: tuple[Index, ...]
    sources: tuple[BlockId, ...]
    destinations: tuple[BlockId, ...]
    deadline: Seconds
    """The workers must not post it after this time of the machine's monotonic clock."""
    after_forward: bool
    """The sources become valid by the forward pass of the step that is being scheduled: post when it has run."""
