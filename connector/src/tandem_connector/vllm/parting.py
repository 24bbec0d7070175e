# SPDX-License-Identifier: Apache-2.0
"""How far it has come with peers that have left the peer table and live: parted first, then not written to any more, then left."""

from collections.abc import Callable
from typing import Final

from tandem_connector.contract.types import EngineId
from tandem_connector.exchange.types import Seconds

PARTS_AFTER: Final = 5.0
"""Seconds after which a peer that has parted is wanted nothing of any more: what was asked of it, or by it, may have no blocks yet."""
LEAVES_AFTER: Final = 60.0
"""Seconds after which there is no connection any more to one with which nothing is under way. It may have been told later than this
engine, or be listed again soon; but an engine meets many over its life, and each costs a socket and pings."""


class Parting:
    """All of them. Scheduler's thread."""

    def __init__(self, leaves_after: float = LEAVES_AFTER) -> None:
        """None.

        Args:
            leaves_after: seconds.
        """
        self._leaves_after = leaves_after
        self._parts_at: dict[EngineId, Seconds] = {}
        self._leaves_at: dict[EngineId, Seconds] = {}
        self._parted: set[EngineId] = set()
        self._closed: set[EngineId] = set()

    @property
    def parted(self) -> frozenset[EngineId]:
        """Those that nothing is wanted of any more."""
        return frozenset(self._parted)

    @property
    def open(self) -> frozenset[EngineId]:
        """Of these, those that the ranks have a connection to."""
        return frozenset(self._parted - self._closed)

    def is_closed(self, peer: EngineId) -> bool:
        """Whether it has parted, and the ranks have no connection to it any more."""
        return peer in self._closed

    def told(self, peer: EngineId, now: Seconds) -> None:
        """The peer table names it no more."""
        self._parts_at[peer] = Seconds(now + PARTS_AFTER)

    def closed(self, peer: EngineId, now: Seconds) -> None:
        """The ranks have no connection to it any more."""
        self._closed.add(peer)
        self._leaves_at[peer] = Seconds(now + self._leaves_after)

    def over(self, peer: EngineId) -> bool:
        """It is listed again, or has ended; whether the ranks had no connection to it."""
        was_closed = peer in self._closed
        for deadlines in (self._parts_at, self._leaves_at):
            deadlines.pop(peer, None)
        self._parted.discard(peer)
        self._closed.discard(peer)
        return was_closed

    def take_parted(self, now: Seconds) -> list[EngineId]:
        """Those that nothing is wanted of from now on."""
        due = [peer for peer, at in self._parts_at.items() if at <= now]
        for peer in due:
            del self._parts_at[peer]
        self._parted.update(due)
        return due

    def take_left(self, now: Seconds, has_settled: Callable[[EngineId], bool]) -> list[EngineId]:
        """Those that there need be no connection to from now on; one that may still write, or be written to, is looked at again."""
        due = [peer for peer, at in self._leaves_at.items() if at <= now]
        left = [peer for peer in due if has_settled(peer)]
        for peer in due:
            self._leaves_at[peer] = Seconds(now + self._leaves_after)
        for peer in left:
            del self._leaves_at[peer]
        return left

    def next_due(self) -> Seconds | None:
        """When one of the two has something to give."""
        return min((*self._parts_at.values(), *self._leaves_at.values()), default=None)
