# SPDX-License-Identifier: Apache-2.0
"""What the exchange has done since it began, as numbers for metrics."""

from collections import Counter
from dataclasses import dataclass, field

from tandem_connector.contract.messages import MissingReason
from tandem_connector.exchange.types import EndReason, Purpose


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
