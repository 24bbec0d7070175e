# SPDX-License-Identifier: Apache-2.0
"""What the writer needs of a transport of one-sided writes. `nixl.py` has the real one; tests have one in memory.

All methods are called from one thread, the writer's, and none of them waits for a peer.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol, TypeVar

from tandem_connector.contract.messages import RankMemory
from tandem_connector.vllm.memory import Geometry

TransferT = TypeVar("TransferT")


class TransportError(Exception):
    """A transport can't be had at all; the text says why and what to do."""


class NotPostedError(Exception):
    """A write was refused before anything of it was written; the peer is as usable as before."""


class PeerUnreachableError(Exception):
    """The connection to a peer is broken. What was posted to it, this write included, may be written in part."""


class TransferState(Enum):
    """Where a posted transfer is."""

    RUNNING = auto()
    DONE = auto()
    """All of it is in the peer's memory, and the peer will be notified."""
    BROKEN = auto()
    """It won't be done, but part of it may be written, now or later."""


class Transport(Protocol[TransferT]):
    """One rank's memory, open to its peers' writes, and its own writes into theirs. Peers go by their agents' names."""

    @property
    def geometry(self) -> Geometry:
        """The memory that is registered."""
        ...

    def memory(self) -> RankMemory:
        """What peers must be told to write here."""
        ...

    def add_peer(self, name: str, memory: RankMemory, blocks: int) -> None:
        """Make a peer's memory, of `blocks` blocks, writable. The peer must not be known already.

        Raises:
            PeerError: its memory doesn't fit ours, or its metadata is malformed or another agent's.
        """
        ...

    def drop_peer(self, name: str) -> None:
        """Close the connection and forget the peer; nothing when it isn't known.

        Its transfers must be released before. Data that the network has may still be written afterwards.
        """
        ...

    def post(self, peer: str, sources: Sequence[int], destinations: Sequence[int], notification: bytes) -> TransferT:
        """Start to write own blocks `sources` into the peer's blocks `destinations`, in all regions.

        Raises:
            NotPostedError: the peer isn't known, or a block isn't in its or our memory.
            PeerUnreachableError: the connection is broken.
        """
        ...

    def state(self, transfer: TransferT) -> TransferState:
        """Make progress, and tell where `transfer` is."""
        ...

    def release(self, transfer: TransferT) -> None:
        """Give back what a transfer holds. A running one isn't stopped by this: UCX goes on writing."""
        ...

    def notifications(self) -> list[tuple[str, bytes]]:
        """Make progress, and take what came with peers' completed writes: the writer's agent name and its bytes."""
        ...

    def close(self) -> None:
        """Drop all peers and close the memory to writes. The last call."""
        ...
