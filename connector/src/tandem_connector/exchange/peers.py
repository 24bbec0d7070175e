# SPDX-License-Identifier: Apache-2.0
"""The engines that may be spoken with, and what is known of their life."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tandem_connector.exchange.types import EngineId, Seconds

REMEMBERED_ENDS: Final = 4_096
"""How many ended incarnations are remembered, so that none of them comes back."""


class PeerState(Enum):
    """What is known of a peer's life."""

    ALIVE = auto()
    SILENT = auto()
    """Nothing is heard from it. It may be frozen, and go on with what it began."""
    GONE = auto()
    """It has certainly ended: its pod is gone, or another incarnation has its address. Final."""


@dataclass(slots=True)
class Peer:
    """One incarnation of another engine."""

    blocks: int
    """Blocks in its pool."""
    publishes: bool = False
    """It publishes KV events."""
    state: PeerState = PeerState.ALIVE
    parted: bool = False
    """It lives, and is no peer any more: what was begun with it is brought to its end, nothing new is begun."""


class Peers:
    """All incarnations that said Hello."""

    def __init__(self) -> None:
        self._peers: dict[EngineId, Peer] = {}
        self._ended: dict[EngineId, Seconds] = {}

    def connected(self, engine: EngineId, blocks: int, *, publishes: bool) -> bool:
        """Add a peer with a pool of so many blocks; False for an incarnation that has ended."""
        if engine in self._ended:
            return False
        self._peers.setdefault(engine, Peer(blocks, publishes))
        return True

    def of(self, engine: EngineId) -> Peer | None:
        """The peer, unless it never said Hello or has ended."""
        return self._peers.get(engine)

    def state(self, engine: EngineId) -> PeerState | None:
        """None for an engine that is not known."""
        if engine in self._ended:
            return PeerState.GONE
        peer = self._peers.get(engine)
        return peer.state if peer is not None else None

    def works_with(self, engine: EngineId) -> bool:
        """Whether something new may be begun with the engine: it answers, and has not parted."""
        peer = self._peers.get(engine)
        return peer is not None and peer.state is PeerState.ALIVE and not peer.parted

    def has_parted(self, engine: EngineId) -> bool:
        """Whether the engine is known and is no peer now."""
        peer = self._peers.get(engine)
        return peer is not None and peer.parted

    def part(self, engine: EngineId, *, parted: bool) -> bool:
        """The engine is no peer any more, or is one again; False if it is so already, or the peer is not known."""
        peer = self._peers.get(engine)
        if peer is None or peer.parted is parted:
            return False
        peer.parted = parted
        return True

    def set(self, engine: EngineId, state: PeerState) -> bool:
        """Change the state between alive and silent; False if it is so already, or the peer is not known."""
        peer = self._peers.get(engine)
        if peer is None or peer.state is state:
            return False
        peer.state = state
        return True

    def end(self, engine: EngineId, now: Seconds) -> bool:
        """The incarnation is gone for certain; False if that is known already."""
        if engine in self._ended:
            return False
        self._peers.pop(engine, None)
        self._ended[engine] = now
        if len(self._ended) > REMEMBERED_ENDS:
            del self._ended[next(iter(self._ended))]
        return True

    def ended_at(self, engine: EngineId) -> Seconds | None:
        """When it became certain that the incarnation has ended."""
        return self._ended.get(engine)
