# SPDX-License-Identifier: Apache-2.0
"""The exchange's terms, and what it needs of the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import NewType, Protocol

from tandem_connector.contract.messages import MAX_BLOCKS, MAX_TTL, Purpose
from tandem_connector.contract.types import BlockHash, EngineId, OfferId, WantId

__all__ = [
    "BlockHash",
    "BlockId",
    "Derivation",
    "EndReason",
    "EngineId",
    "FreshBlocks",
    "Index",
    "JobId",
    "Landing",
    "Load",
    "OfferedRun",
    "Pool",
    "Purpose",
    "RequestId",
    "Seconds",
    "StepId",
    "WantId",
    "Write",
    "WriteEnd",
]

BlockId = NewType("BlockId", int)
"""Place of a block in an engine's own pool."""
Index = NewType("Index", int)
"""Position of a block within a want."""
JobId = NewType("JobId", int)
"""Names one write that the workers were asked for."""
RequestId = NewType("RequestId", str)
"""The engine's own id of a live request."""
StepId = NewType("StepId", int)
"""Names a scheduled step of this engine. Only grows; steps end in the order in which they were scheduled."""
Seconds = NewType("Seconds", float)
"""A duration, or a time of this process's monotonic clock; never another machine's clock."""


class EndReason(StrEnum):
    """Why a want ended."""

    COMPLETE = "complete"
    MISSING = "missing"
    """The holder said that the rest will not come."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    """The request was aborted, or the engine shuts down."""
    RESET = "reset"
    """The prefix cache was reset: nothing that was received may be used."""
    PEER_SILENT = "peer_silent"
    PEER_GONE = "peer_gone"
    REFUSED = "refused"
    """Not sent at all: the peer is not connected, or too many blocks are in quarantine."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """What a block's name is a hash of."""

    parent: BlockHash | None
    """Name of the block before it; None for the first of a sequence."""
    tokens: tuple[int, ...]
    keys: bytes = b""
    """What else there is (LoRA, multimodal, cache salt), in the engine's own encoding."""


class Pool(Protocol):
    """The engine's block pool, as far as the exchange touches it. Called on the scheduler's thread only."""

    def lookup(self, block_hash: BlockHash) -> BlockId | None:
        """The block cached under this name, or None.

        Its content is right, or is filled by a step in flight that the exchange was told of by `step_scheduled`. A name
        that was given for a step which will not run (its request was preempted while the step was scheduled) is no name.
        """
        ...

    def pin(self, blocks: Sequence[BlockId]) -> None:
        """Add a reference to each, so that it is neither freed nor evicted."""
        ...

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        """Take one reference from each; a block without any becomes evictable, or free if it has no name.

        The first of `blocks` is to be reused first.
        """
        ...

    def room(self, landing: int) -> int:
        """How many blocks `take` may give for what peers offer, beyond the `landing` that are held for that already."""
        ...

    def take(self, count: int) -> tuple[BlockId, ...] | None:
        """`count` blocks without name, each with one reference; None when there are not as many."""
        ...

    def commit(self, block_hash: BlockHash, block: BlockId, position: int, derivation: Derivation | None) -> bool:
        """Put a written block into the prefix cache under its name; False when the name is there already.

        `position` is the block's index in its token sequence, `derivation` what a peer says that the name is derived
        from. The caller keeps its reference.
        """
        ...

    def derivations(self, hashes: Sequence[BlockHash]) -> tuple[Derivation, ...] | None:
        """What each of these names is derived from; None when that isn't known of all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """A job for the workers: write own blocks `sources` into blocks `destinations` of the peer.

    Each rank's notification names the want and the indices. The job's end is reported once, for all ranks together, and
    only when no rank has it in flight.
    """

    job: JobId
    peer: EngineId
    want: WantId
    indices: tuple[Index, ...]
    sources: tuple[BlockId, ...]
    destinations: tuple[BlockId, ...]
    deadline: Seconds
    """The workers must not post it after this time of the machine's monotonic clock, but report it failed."""
    after: StepId | None
    """The sources become valid by the forward pass of this step: post when it has run. None: valid now."""


class WriteEnd(Enum):
    """How a job ended, on all ranks together: the worst of them counts."""

    WRITTEN = auto()
    """All of it."""
    NOT_WRITTEN = auto()
    """What isn't written was never posted."""
    UNCERTAIN = auto()
    """A connection broke under a posted write: what isn't written may still be, until the transport's bound has passed."""


@dataclass(frozen=True, slots=True)
class FreshBlocks:
    """Full blocks of one request that a scheduled step fills: valid when its forward pass has run."""

    request: RequestId
    position: int
    """Index of the first one in the request's token sequence; the others follow it."""
    hashes: tuple[BlockHash, ...]
    blocks: tuple[BlockId, ...]


@dataclass(frozen=True, slots=True)
class OfferedRun:
    """Consecutive blocks of one token sequence."""

    position: int
    """Index of the first one in the sequence."""
    hashes: tuple[BlockHash, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """What a request asks of a peer."""

    request: RequestId
    purpose: Purpose
    """FORWARD or REVERSE_FETCH."""
    hashes: tuple[BlockHash, ...]
    """What is wanted: consecutive blocks of the request."""
    blocks: tuple[BlockId, ...]
    """Where it is to be, one for each hash."""
    ttl: Seconds
    """After which the request doesn't wait any more."""
    wait: bool
    """Also what the peer is about to compute; else only what it has."""

    def __post_init__(self) -> None:
        if not (0 < len(self.hashes) == len(set(self.blocks)) == len(self.blocks) <= MAX_BLOCKS):
            raise ValueError(f"{len(self.hashes)} hashes for {len(set(self.blocks))} different blocks")
        if not 0 < self.ttl <= MAX_TTL:
            raise ValueError(f"a time to live of {self.ttl} s, not between 0 and {MAX_TTL}")


@dataclass(frozen=True, slots=True)
class Landing:
    """What is taken of a peer's offer."""

    offer: OfferId
    purpose: Purpose
    """REVERSE_PUSH or MOVE."""
    hashes: tuple[BlockHash, ...]
    blocks: tuple[BlockId, ...]
    positions: tuple[int, ...]
    """Each block's index in its token sequence."""
    derivations: tuple[Derivation | None, ...]
    """What each block's name is derived from, as the peer says."""
    ttl: Seconds
