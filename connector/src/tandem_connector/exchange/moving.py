# SPDX-License-Identifier: Apache-2.0
"""A draining engine offers its cache to its successor, as fast as that takes it."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tandem_connector.contract.types import OfferId
from tandem_connector.exchange.commands import MoveEnded
from tandem_connector.exchange.offering import Offering
from tandem_connector.exchange.peers import PeerState
from tandem_connector.exchange.served_want import ServedWant
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import EngineId, OfferedRun, Purpose, Seconds


@dataclass(slots=True)
class _Move:
    runs: deque[OfferedRun]
    outstanding: OfferId | None = None
    offered: int = 0
    written: int = 0


class Moving:
    """One offer at a time to each successor: the next when the last was answered and written, or found nothing lacking."""

    def __init__(self, shared: Shared, offering: Offering) -> None:
        self._settings = shared.settings
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._offering = offering
        self._moves: dict[EngineId, _Move] = {}
        self._patience: Timers[EngineId] = Timers()

    def start(self, successor: EngineId, runs: Iterable[OfferedRun], now: Seconds) -> None:
        """Offer these, the first ones first, after what is being offered to this successor already."""
        if self._peers.state(successor) is not PeerState.ALIVE:
            self._outbox.put(MoveEnded(successor, 0, 0))
            return
        parts = [
            OfferedRun(run.position + start, run.hashes[start : start + self._settings.move_batch])
            for run in runs
            for start in range(0, len(run.hashes), self._settings.move_batch)
        ]
        move = self._moves.get(successor)
        if move is not None:
            move.runs.extend(parts)
        else:
            self._moves[successor] = _Move(deque(parts))
            self._next(successor, now)

    def _next(self, successor: EngineId, now: Seconds) -> None:
        move = self._moves[successor]
        if not move.runs:
            self._end(successor)
            return
        run = move.runs.popleft()
        move.outstanding = self._offering.offer(successor, Purpose.MOVE, run)
        move.offered += len(run.hashes)
        self._patience.set(successor, Seconds(now + self._settings.offer_patience))

    def _end(self, successor: EngineId) -> None:
        move = self._moves.pop(successor, None)
        if move is not None:
            self._patience.cancel(successor)
            self._outbox.put(MoveEnded(successor, move.offered, move.written))

    def wanted(self, peer: EngineId, offer: OfferId | None) -> None:
        """A want answers an offer: wait for its end, which is bounded by its time to live."""
        move = self._moves.get(peer)
        if move is not None and offer is not None and offer == move.outstanding:
            self._patience.cancel(peer)

    def served(self, want: ServedWant, now: Seconds) -> None:
        """A want is over."""
        move = self._moves.get(want.peer)
        if move is None or want.purpose is not Purpose.MOVE:
            return
        move.written += want.written
        if want.offer == move.outstanding:
            self._next(want.peer, now)

    def peer_lost(self, peer: EngineId) -> None:
        """The successor is silent or gone: the move ends with what was moved."""
        self._end(peer)

    def stop(self) -> None:
        """End all moves."""
        for successor in list(self._moves):
            self._end(successor)

    def tick(self, now: Seconds) -> None:
        """Go on where an offer was not answered."""
        for successor in self._patience.pop_due(now):
            self._next(successor, now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._patience.next_due()

    def __bool__(self) -> bool:
        return bool(self._moves)
