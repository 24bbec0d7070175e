# SPDX-License-Identifier: Apache-2.0
"""What the exchange has done since it began, as numbers for metrics."""

from collections import Counter
from dataclasses import dataclass, field

from tandem_connector.contract.messages import MissingReason
from tandem_connector.exchange.types import EndReason, EngineId, Purpose


@dataclass(slots=True)
class Moved:
    """Blocks that went between this engine and each peer."""

    received: Counter[tuple[EngineId, Purpose]] = field(default_factory=Counter)
    written: Counter[tuple[EngineId, Purpose]] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    """Counters that only grow. Own wants are counted when they end, peers' wants block by block."""

    wants_ended: Counter[tuple[Purpose, EndReason]] = field(default_factory=Counter)
    blocks_wanted: Counter[Purpose] = field(default_factory=Counter)
    blocks_received: Counter[Purpose] = field(default_factory=Counter)
    blocks_lost: Counter[tuple[Purpose, EndReason]] = field(default_factory=Counter)
    """Blocks of own wants that had not come when the want ended, by why it ended."""
    blocks_asked: Counter[Purpose] = field(default_factory=Counter)
    """Blocks in peers' wants."""
    blocks_written: Counter[Purpose] = field(default_factory=Counter)
    blocks_missing: Counter[tuple[Purpose, MissingReason]] = field(default_factory=Counter)
    """Blocks that peers were told will not come."""
    blocks_offered: Counter[Purpose] = field(default_factory=Counter)
    blocks_declined: Counter[Purpose] = field(default_factory=Counter)
    """Blocks that peers offered, that this engine lacked and had no room for."""
    strangers: int = 0
    """Messages from engines that are not connected, or have ended."""
    misaddressed: int = 0
    """Messages for another incarnation."""
    violations: int = 0
    """Messages with numbers that make no sense; their sender was to be dropped."""
    late_notifications: int = 0
    """Blocks that arrived for a want that was over."""
    _moved: Moved = field(default_factory=Moved)

    def count_received(self, peer: EngineId, purpose: Purpose, blocks: int) -> None:
        """The peer wrote so many blocks into this engine."""
        self.blocks_received[purpose] += blocks
        self._moved.received[peer, purpose] += blocks

    def count_written(self, peer: EngineId, purpose: Purpose, blocks: int) -> None:
        """This engine wrote so many blocks into the peer."""
        self.blocks_written[purpose] += blocks
        self._moved.written[peer, purpose] += blocks

    def take_moved(self) -> Moved:
        """What went since the last call. All calls together give what `blocks_received` and `blocks_written` have.

        Nothing is kept of a peer here: an engine meets many over its life.
        """
        moved, self._moved = self._moved, Moved()
        return moved


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the exchange holds now."""

    wants_open: int
    wants_held: int
    """Ended wants whose blocks can't be released yet."""
    blocks_quarantined: int
    blocks_landing: int
    blocks_pinned: int
    """Own blocks referenced for writes in flight."""
    wants_served: int
    hashes_awaited: int
    """Different hashes that peers wait for and nobody has computed yet."""
