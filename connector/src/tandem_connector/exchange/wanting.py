# SPDX-License-Identifier: Apache-2.0
"""Own wants, from asking until the last of their blocks may be reused.

A want ends for its owner once, early if need be; its blocks are released later (`keeping`).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import ClassVar, TypeAlias

from tandem_connector.contract.messages import CancelAck, Missing, MissingReason, Want
from tandem_connector.exchange.commands import (
    ExpectFewer,
    ExpectWant,
    ForgetWant,
    LandingCommitted,
    LandingEnded,
    LoadEnded,
    Send,
)
from tandem_connector.exchange.held import Held
from tandem_connector.exchange.incoming import Incoming
from tandem_connector.exchange.keeping import Keeping
from tandem_connector.exchange.own_want import OwnWant, WantState
from tandem_connector.exchange.peers import PeerState
from tandem_connector.exchange.pinging import Pinging
from tandem_connector.exchange.quarantine import Quarantine
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EndReason,
    EngineId,
    Index,
    Landing,
    Load,
    RequestId,
    Seconds,
    WantId,
)

OnValid: TypeAlias = Callable[[Sequence[tuple[BlockHash, BlockId]]], None]
"""Told of blocks that arrived, so that peers who wait for them are served."""

_UNUSABLE = {EndReason.RESET}


class Wanting:
    """All own wants."""

    _keeping_type: ClassVar[type[Keeping]] = Keeping

    def __init__(self, shared: Shared, on_valid: OnValid) -> None:
        self._settings = shared.settings
        self._pool = shared.pool
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._tally = shared.tally
        self._on_valid = on_valid
        self.incoming = Incoming()
        self._exposed = Held()
        self._keeping = self._keeping_type(shared, self._released)
        self._ids = count(1)
        self._next = WantId(next(self._ids))
        self._wants: dict[WantId, OwnWant] = {}
        self._by_peer: dict[EngineId, dict[WantId, OwnWant]] = {}
        self._by_request: dict[RequestId, dict[WantId, OwnWant]] = {}
        self._timers: Timers[WantId] = Timers()
        """When open wants expire."""
        self.pinging = Pinging(shared)

    # -- asking ---------------------------------------------------------------------------------------------------

    def open(self, peer: EngineId, asked: Load | Landing, now: Seconds) -> WantId:
        """Ask the peer for these blocks. The caller has added the reference to each of them that the want holds."""
        want = OwnWant(
            id=self._next,
            peer=peer,
            asked=asked,
            opened=now,
            expires=Seconds(now + asked.ttl),
            awaited={Index(index) for index in range(len(asked.hashes))},
        )
        self._next = WantId(next(self._ids))
        self._wants[want.id] = want
        self._exposed.add(want.blocks)
        self._by_peer.setdefault(peer, {})[want.id] = want
        self.incoming.ask(asked.hashes)
        self._timers.set(want.id, want.expires)
        self.pinging.opened(peer, now)
        self._tally.blocks_wanted[asked.purpose] += len(asked.hashes)
        self._outbox.put(ExpectWant(want.id, peer, asked.blocks))
        match asked:
            case Load():
                self._by_request.setdefault(asked.request, {})[want.id] = want
                wait, offer = asked.wait, None
            case Landing():
                self.incoming.take(peer, len(asked.blocks))
                wait, offer = False, asked.offer
        self._outbox.put(Send(peer, Want(want.id, asked.purpose, asked.hashes, asked.blocks, asked.ttl, wait, offer)))
        return want.id

    # -- what comes -----------------------------------------------------------------------------------------------

    def received(self, want_id: WantId, indices: Iterable[Index], now: Seconds) -> None:
        """These blocks were written, on all ranks."""
        want = self._wants.get(want_id)
        if want is None:
            self._tally.late_notifications += len(list(indices))
            return
        new = [index for index in dict.fromkeys(indices) if index in want.awaited]
        want.awaited.difference_update(new)
        if want.state is WantState.OPEN:
            want.received.extend(new)
            self._tally.count_received(want.peer, want.purpose, len(new))
            if isinstance(want.asked, Landing) and new:
                self._land(want, want.asked, new)
        else:
            self._tally.late_notifications += len(new)
        self._resolve(want, now)

    def _land(self, want: OwnWant, landing: Landing, indices: Sequence[Index]) -> None:
        committed = [
            index
            # Who follows the events looks for a block's parent among those that it knows.
            for index in sorted(indices)
            if self._pool.commit(
                want.hashes[index], want.blocks[index], landing.positions[index], landing.derivations[index]
            )
        ]
        self._outbox.put(
            LandingCommitted(
                want=want.id,
                peer=want.peer,
                purpose=want.purpose,
                hashes=tuple(want.hashes[index] for index in committed),
                blocks=tuple(want.blocks[index] for index in committed),
                positions=tuple(landing.positions[index] for index in committed),
            )
        )
        self._on_valid([(want.hashes[index], want.blocks[index]) for index in indices])

    def missing(self, peer: EngineId, message: Missing, now: Seconds) -> bool:
        """The holder says that these will not come; False if an index is not of the want."""
        want = self._wants.get(message.want)
        if want is None or want.peer != peer:
            return True
        told = want.awaited.copy() if message.indices is None else {Index(index) for index in message.indices}
        if told and max(told) >= len(want.hashes):
            return False
        fewer = len(told & want.awaited)
        self._await_no_more(want, told, now, uncertain=message.why is MissingReason.UNCERTAIN)
        if fewer and want.awaited:
            self._outbox.put(ExpectFewer(want.id, fewer))
        self._resolve(want, now)
        return True

    def acknowledged(self, peer: EngineId, message: CancelAck, now: Seconds) -> None:
        """The holder says that no write for the want is in flight, and none will be posted."""
        want = self._wants.get(message.want)
        if want is not None and want.peer == peer and want.state is not WantState.OPEN:
            self._await_no_more(want, want.awaited.copy(), now, uncertain=message.uncertain)
            self._keeping.let_go(want, now)

    def _await_no_more(self, want: OwnWant, told: set[Index], now: Seconds, *, uncertain: bool) -> None:
        # Only by what it says the first time: the holder repeats itself, and that must not hold the blocks for ever.
        if uncertain and not told.isdisjoint(want.awaited):
            want.unsafe_until = Seconds(now + self._settings.transport_bound)
        want.awaited.difference_update(told)

    def _resolve(self, want: OwnWant, now: Seconds) -> None:
        if want.awaited:
            return
        if want.state is WantState.OPEN:
            whole = len(want.received) == len(want.hashes)
            self._end(want, EndReason.COMPLETE if whole else EndReason.MISSING, now)
        self._keeping.let_go(want, now)

    # -- ends -----------------------------------------------------------------------------------------------------

    def cancel_request(self, request: RequestId, now: Seconds) -> None:
        """The request was aborted or has ended: it waits for nothing any more."""
        for want in list(self._by_request.get(request, {}).values()):
            self._abandon(want, EndReason.CANCELLED, now)

    def cancel_all(self, reason: EndReason, now: Seconds) -> None:
        """End every open want, of requests and of landings."""
        for want in list(self._wants.values()):
            self._abandon(want, reason, now)

    def peer_silent(self, peer: EngineId, now: Seconds) -> None:
        """Nothing is heard from the peer: its wants end, and their blocks wait for what becomes of it."""
        for want in list(self._by_peer.get(peer, {}).values()):
            self._keeping.peer_silent(want)
            self._abandon(want, EndReason.PEER_SILENT, now)

    def peer_back(self, peer: EngineId, now: Seconds) -> None:
        """The peer is heard again: ask it about all that is not acknowledged."""
        for want in self._by_peer.get(peer, {}).values():
            self._keeping.peer_back(want, now)
        if peer in self._by_peer:
            self.pinging.ask_now(peer, now)

    def peer_gone(self, peer: EngineId, now: Seconds) -> None:
        """The peer has certainly ended: what it had posted may arrive for a while yet."""
        for want in list(self._by_peer.get(peer, {}).values()):
            if want.state is WantState.OPEN:
                self._abandon(want, EndReason.PEER_GONE, now)
            else:
                self._keeping.hold(want, now)

    def _abandon(self, want: OwnWant, reason: EndReason, now: Seconds) -> None:
        if want.state is WantState.OPEN:
            self._end(want, reason, now)
            self._keeping.hold(want, now)

    def _end(self, want: OwnWant, reason: EndReason, now: Seconds) -> None:
        """Tell the owner, once. The state is left to the caller."""
        waited = Seconds(now - want.opened)
        match want.asked:
            case Load(request=request):
                usable = reason not in _UNUSABLE
                good = want.good() if usable else ()
                bad = want.bad() if usable else tuple(Index(index) for index in range(len(want.hashes)))
                self._outbox.put(LoadEnded(request, want.id, want.peer, want.purpose, good, bad, reason, waited))
                if usable:
                    self._on_valid(want.prefix())
                of_request = self._by_request[request]
                del of_request[want.id]
                if not of_request:
                    del self._by_request[request]
            case Landing():
                self._outbox.put(
                    LandingEnded(want.id, want.peer, want.purpose, len(want.hashes), len(want.received), reason, waited)
                )
        self._timers.cancel(want.id)
        self.incoming.end(want.hashes)
        self._tally.wants_ended[want.purpose, reason] += 1
        self._tally.blocks_lost[want.purpose, reason] += len(want.hashes) - len(want.received)

    def _released(self, want: OwnWant) -> None:
        """No write can reach the blocks of an ended want any more."""
        del self._wants[want.id]
        self._exposed.remove(want.blocks)
        of_peer = self._by_peer[want.peer]
        del of_peer[want.id]
        if not of_peer:
            del self._by_peer[want.peer]
        if isinstance(want.asked, Landing):
            self.incoming.release(want.peer, len(want.blocks))
        self._outbox.put(ForgetWant(want.id))
        # The tail of a sequence is of no use without its head: it is to be evicted first.
        self._pool.unpin(want.blocks[::-1])

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: Seconds) -> None:
        """End what has expired, release what can't be written any more, and tell the peers what is open."""
        for want_id in self._timers.pop_due(now):
            self._abandon(self._wants[want_id], EndReason.EXPIRED, now)
        self._keeping.tick(now)
        self.pinging.tick(self._by_peer, self._next, now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        due = (self._timers.next_due(), self._keeping.next_due(), self.pinging.next_due())
        return min((at for at in due if at is not None), default=None)

    # -- questions ------------------------------------------------------------------------------------------------

    @property
    def open_wants(self) -> int:
        """Wants that somebody waits for."""
        return sum(want.state is WantState.OPEN for want in self._wants.values())

    @property
    def held_wants(self) -> int:
        """Wants that have ended, and whose blocks are not released."""
        return len(self._wants) - self.open_wants

    def holds_of(self, peer: EngineId) -> bool:
        """Whether a want at the peer is not released."""
        return peer in self._by_peer

    @property
    def quarantine(self) -> Quarantine:
        """The blocks that wait for engines which don't answer."""
        return self._keeping.quarantine

    @property
    def exposed(self) -> int:
        """Blocks of all wants that are not released: each may still be written into."""
        return len(self._exposed)

    @property
    def answerable(self) -> bool:
        """A peer that is alive may still write into blocks of this engine, or say that it will not."""
        return any(self._peers.state(peer) is PeerState.ALIVE for peer in self._by_peer)
