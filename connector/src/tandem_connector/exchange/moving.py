# SPDX-License-Identifier: Apache-2.0
"""A draining engine offers its cache to its successor, as fast as that takes it."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from tandem_connector.contract.types import OfferId
from tandem_connector.exchange.commands import MoveEnded
from tandem_connector.exchange.offering import Offering
from tandem_connector.exchange.served_want import ServedState, ServedWant
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
    batch: int
    """Blocks that may be on offer at one time: fewer from each time on in which they don't come over within a want's time."""
    runs: deque[OfferedRun] = field(default_factory=deque)
    on_offer: dict[OfferId, _Offered] = field(default_factory=dict)
    unanswered: dict[OfferId, _Offered] = field(default_factory=dict)
    """Were made again; a want may answer them yet."""
    offered: int = 0
    written: int = 0
    in_vain: int = 0
    """Times in a row that nothing came over of what may be lacking there."""

    @property
    def blocks_on_offer(self) -> int:
        return sum(len(offered.run.hashes) for offered in self.on_offer.values())


class Moving:
    """A bounded number of blocks on offer to each successor: more when some were written, or are not lacking there.

    What may be lacking there after all is offered again, until that was in vain several times in a row: what the successor has no
    room for, an offer that it didn't answer, and a want whose blocks didn't all come over in its time. Of those that are slow only
    half as many are offered at one time.
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
        most = int(peer.blocks * self._settings.move_share)
        move = self._moves.setdefault(successor, _Move(most, self._settings.move_batch))
        move.runs.extend(run for run in runs if run.hashes)
        self._go_on(successor, now)

    def _go_on(self, successor: EngineId, now: Seconds) -> None:
        """Offer as much as may be on offer; end the move when there is nothing more to offer, or enough was written."""
        move = self._moves[successor]
        if successor in self._rests:
            return
        most = min(move.batch, self._offering.most(successor))
        while move.runs and move.written < move.most:
            following, rest = _split(move.runs[0], most)
            if move.on_offer and move.blocks_on_offer + len(following.hashes) > move.batch:
                break
            move.runs.popleft()
            if rest.hashes:
                move.runs.appendleft(rest)
            for run in self._cached(following):
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
        if move is None or offer is None:
            return
        if (late := move.unanswered.pop(offer, None)) is not None:
            move.on_offer[offer] = late
            move.offered += len(late.run.hashes)
        if offer in move.on_offer:
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
            self._over(peer, move, offer, 0, lacking=left > 0, now=now)

    def served(self, want: ServedWant, now: Seconds) -> None:
        """A want is over."""
        move = self._moves.get(want.peer)
        if move is None or want.purpose is not Purpose.MOVE:
            return
        move.written += want.written
        offered = move.on_offer.get(want.offer) if want.offer is not None else None
        if want.offer is None or offered is None:
            return
        # What was written late may have come when the successor, which is slow too, had given it up. If it was in time after all,
        # offering it again costs one message.
        is_late = want.state is not ServedState.OPEN or now - want.begun > (want.deadline - want.begun) / 2
        came = 0 if is_late else want.written
        is_short = came < len(want.hashes)
        if is_short and want.peer not in self._rests:
            move.batch = max(1, min(move.batch, move.blocks_on_offer) // 2)
        self._over(want.peer, move, want.offer, came, lacking=is_short or offered.left > 0, now=now)

    def _over(
        self, successor: EngineId, move: _Move, offer: OfferId, came: int, *, lacking: bool, now: Seconds
    ) -> None:
        """The offer is, of which so many blocks came over; if some may be lacking yet it is made again.

        After one that was in vain there is a rest: for room to come, or a connection to be made anew. Others that were made at the
        same time and end in it count as the same.
        """
        self._patience.cancel((successor, offer))
        offered = move.on_offer.pop(offer)
        if lacking:
            move.offered -= len(offered.run.hashes)
            move.runs.appendleft(offered.run)
        if came or not lacking:
            move.in_vain = 0
        elif successor not in self._rests:
            move.in_vain += 1
            self._rests.set(successor, Seconds(now + self._settings.offer_patience))
        if move.in_vain < self._settings.move_attempts:
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
                move.unanswered[offer] = move.on_offer[offer]
                self._over(successor, move, offer, 0, lacking=True, now=now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        due = (self._patience.next_due(), self._rests.next_due())
        return min((at for at in due if at is not None), default=None)

    def goes_to(self, successor: EngineId) -> bool:
        """Whether a move to it isn't over."""
        return successor in self._moves

    def __bool__(self) -> bool:
        return bool(self._moves)


def _split(run: OfferedRun, length: int) -> tuple[OfferedRun, OfferedRun]:
    """Its first blocks, so many, and the rest."""
    head, rest = run.hashes[:length], run.hashes[length:]
    return OfferedRun(run.position, head), OfferedRun(run.position + length, rest)
