# SPDX-License-Identifier: Apache-2.0
"""A draining engine offers its cache to its successor, as fast as that takes it."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from tandem_connector.contract.types import OfferId
from tandem_connector.exchange.commands import MoveEnded
from tandem_connector.exchange.offering import Offering
from tandem_connector.exchange.served_want import ServedWant
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import EngineId, OfferedRun, Purpose, Seconds


@dataclass(slots=True)
class _Offered:
    """An offer that hasn't come to its end."""

    run: OfferedRun
    wanted: bool = False
    """A want answers it, whose end is bounded by its time to live."""
    left: int = 0
    """Blocks that the successor lacks and had no room for."""


@dataclass(slots=True)
class _Move:
    most: int
    """Blocks that may be written in all."""
    runs: deque[OfferedRun]
    on_offer: dict[OfferId, _Offered] = field(default_factory=dict)
    offered: int = 0
    written: int = 0
    full: int = 0
    """How often in a row nothing was written because there was no room."""

    @property
    def blocks_on_offer(self) -> int:
        return sum(len(offered.run.hashes) for offered in self.on_offer.values())


class Moving:
    """A bounded number of blocks on offer to each successor: more when some were written, or are not lacking there.

    The successor says of each offer what it lacks and doesn't take, which is offered again. Silence means that an answer was
    lost, and that these blocks are not moved.
    """

    def __init__(self, shared: Shared, offering: Offering) -> None:
        self._settings = shared.settings
        self._pool = shared.pool
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._offering = offering
        self._moves: dict[EngineId, _Move] = {}
        self._patience: Timers[tuple[EngineId, OfferId]] = Timers()
        self._rests: Timers[EngineId] = Timers()

    def start(self, successor: EngineId, runs: Iterable[OfferedRun], now: Seconds) -> None:
        """Offer these, the first ones first, after what is being offered to this successor already."""
        peer = self._peers.of(successor)
        if peer is None or not self._peers.works_with(successor):
            self._outbox.put(MoveEnded(successor, 0, 0))
            return
        most = min(self._settings.move_batch, self._offering.most(successor))
        parts = [
            OfferedRun(run.position + start, run.hashes[start : start + most])
            for run in runs
            for start in range(0, len(run.hashes), most)
        ]
        move = self._moves.setdefault(successor, _Move(int(peer.blocks * self._settings.move_share), deque()))
        move.runs.extend(parts)
        self._go_on(successor, now)

    def _go_on(self, successor: EngineId, now: Seconds) -> None:
        """Offer as much as may be on offer; end the move when there is nothing more to offer, or enough was written."""
        move = self._moves[successor]
        if successor in self._rests:
            return
        while move.runs and move.written < move.most:
            if move.on_offer and move.blocks_on_offer + len(move.runs[0].hashes) > self._settings.move_batch:
                break
            for run in self._cached(move.runs.popleft()):
                offer = self._offering.offer(successor, Purpose.MOVE, run)
                move.offered += len(run.hashes)
                move.on_offer[offer] = _Offered(run)
                self._patience.set((successor, offer), Seconds(now + self._settings.offer_patience))
        if not move.on_offer:
            self._end(successor)

    def _cached(self, run: OfferedRun) -> Iterator[OfferedRun]:
        """What of the run is still in the cache."""
        places = enumerate(run.hashes, run.position)
        for is_cached, part in groupby(places, lambda place: self._pool.lookup(place[1]) is not None):
            if is_cached:
                positions, hashes = zip(*part, strict=True)
                yield OfferedRun(positions[0], hashes)

    def _end(self, successor: EngineId) -> None:
        move = self._moves.pop(successor, None)
        if move is not None:
            self._rests.cancel(successor)
            for offer in move.on_offer:
                self._patience.cancel((successor, offer))
            self._outbox.put(MoveEnded(successor, move.offered, move.written))

    def wanted(self, peer: EngineId, offer: OfferId | None) -> None:
        """A want answers an offer."""
        move = self._moves.get(peer)
        if move is not None and offer is not None and offer in move.on_offer:
            move.on_offer[offer].wanted = True
            self._patience.cancel((peer, offer))

    def took(self, peer: EngineId, offer: OfferId, left: int, now: Seconds) -> None:
        """All that is wanted of the offer was wanted; `left` blocks are lacking there, and were not."""
        move = self._moves.get(peer)
        offered = move.on_offer.get(offer) if move is not None else None
        if move is None or offered is None:
            return
        offered.left = left
        if not offered.wanted:
            self._over(peer, move, offer, 0, now)

    def served(self, want: ServedWant, now: Seconds) -> None:
        """A want is over."""
        move = self._moves.get(want.peer)
        if move is None or want.purpose is not Purpose.MOVE:
            return
        move.written += want.written
        if want.offer is not None and want.offer in move.on_offer:
            self._over(want.peer, move, want.offer, want.written, now)

    def _over(self, successor: EngineId, move: _Move, offer: OfferId, written: int, now: Seconds) -> None:
        """The offer is; what was left of it is offered again, after a rest if nothing of it was written."""
        self._patience.cancel((successor, offer))
        offered = move.on_offer.pop(offer)
        if written:
            move.full = 0
        if offered.left:
            move.offered -= len(offered.run.hashes)
            move.runs.appendleft(offered.run)
            if not written and successor not in self._rests:
                move.full += 1
                self._rests.set(successor, Seconds(now + self._settings.offer_patience))
        if move.full < self._settings.move_attempts:
            self._go_on(successor, now)
        else:
            self._end(successor)

    def peer_lost(self, peer: EngineId) -> None:
        """The successor is silent, gone, or has parted: the move ends with what was moved."""
        self._end(peer)

    def stop(self) -> None:
        """End all moves."""
        for successor in list(self._moves):
            self._end(successor)

    def tick(self, now: Seconds) -> None:
        """Go on where an offer was not answered, or there was no room."""
        for successor in self._rests.pop_due(now):
            self._go_on(successor, now)
        for successor, offer in self._patience.pop_due(now):
            move = self._moves.get(successor)
            if move is not None and offer in move.on_offer:
                self._over(successor, move, offer, 0, now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        due = (self._patience.next_due(), self._rests.next_due())
        return min((at for at in due if at is not None), default=None)

    def __bool__(self) -> bool:
        return bool(self._moves)
