# SPDX-License-Identifier: Apache-2.0
"""The exchange of one engine: every event goes in here, every command comes out.

All methods are called on the scheduler's thread, in the order in which things happened, with the time of this machine's
monotonic clock where it matters. None of them does anything but change state and add commands; `commands` hands them out.

Order within one scheduler step: `step_scheduled` first, because the names of the blocks that the step fills are in the
cache already and nothing else tells them from valid ones; then messages and peers' changes, then `tick`. With the
step's output: `step_finished`, `want_received` and `write_ended`, then what became of requests.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from tandem_connector.contract.messages import Envelope, MissingReason
from tandem_connector.exchange.commands import Command
from tandem_connector.exchange.hearing import Hearing
from tandem_connector.exchange.moving import Moving
from tandem_connector.exchange.offering import Offering
from tandem_connector.exchange.peers import PeerState
from tandem_connector.exchange.served_want import ServedWant
from tandem_connector.exchange.serving import Serving
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.tally import Gauges, Tally
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EndReason,
    EngineId,
    FreshBlocks,
    Index,
    JobId,
    Load,
    OfferedRun,
    Pool,
    Purpose,
    RequestId,
    Seconds,
    StepId,
    WantId,
    WriteEnd,
)
from tandem_connector.exchange.wanting import Wanting


class Exchange:
    """One engine's side of the exchange."""

    _wanting_type: ClassVar[type[Wanting]] = Wanting

    def __init__(self, engine: EngineId, pool: Pool, settings: ExchangeSettings | None = None) -> None:
        self.engine = engine
        self._shared = Shared(settings or ExchangeSettings(), pool)
        self._peers = self._shared.peers
        self._outbox = self._shared.outbox
        self._serving = Serving(self._shared, self._served)
        self._wanting = self._wanting_type(self._shared, self._valid_now)
        self._offering = Offering(self._shared)
        self._moving = Moving(self._shared, self._offering)
        self._hearing = Hearing(engine, self._shared, self._wanting, self._serving, self._moving)
        self._stopping = False
        self._draining = False

    @property
    def tally(self) -> Tally:
        """What was done since the engine began."""
        return self._shared.tally

    def commands(self) -> list[Command]:
        """What to do, since the last call, in order."""
        return self._outbox.drain()

    # -- peers ----------------------------------------------------------------------------------------------------

    def peer_connected(self, peer: EngineId, blocks: int, now: Seconds, *, publishes: bool = False) -> bool:
        """The peer's Hello was accepted; its pool has so many blocks, and it publishes KV events or doesn't.

        Returns:
            False for an incarnation that has ended: it is never spoken with again.
        """
        known = self._peers.of(peer) is not None
        added = self._peers.connected(peer, blocks, publishes=publishes)
        if known:
            self.peer_back(peer, now)
        return added

    def peer_silent(self, peer: EngineId, now: Seconds) -> None:
        """Nothing was heard from the peer for too long. What is wanted of it ends, its blocks stay held."""
        if self._peers.set(peer, PeerState.SILENT):
            self._wanting.peer_silent(peer, now)
            self._serving.peer_silent(peer, now)
            self._moving.peer_lost(peer)

    def peer_back(self, peer: EngineId, now: Seconds) -> None:
        """The peer is heard again."""
        if self._peers.set(peer, PeerState.ALIVE):
            self._wanting.peer_back(peer, now)

    def peer_parted(self, peer: EngineId) -> None:
        """The peer lives, and is not to be worked with any more: what was begun goes on to its end, and nothing new begins."""
        if self._peers.part(peer, parted=True):
            self._offering.peer_lost(peer)
            self._moving.peer_lost(peer)

    def peer_returned(self, peer: EngineId) -> None:
        """The peer that had parted is to be worked with again."""
        self._peers.part(peer, parted=False)

    def peer_gone(self, peer: EngineId, now: Seconds) -> None:
        """The incarnation has ended for certain: its pod is gone, or another one has its address."""
        if self._peers.end(peer, now):
            self._wanting.peer_gone(peer, now)
            self._serving.peer_gone(peer, now)
            self._offering.peer_lost(peer)
            self._moving.peer_lost(peer)

    def receive(self, envelope: Envelope, now: Seconds) -> None:
        """A message has arrived. The caller has told of the connection, and of the sender being heard again."""
        self._hearing.receive(envelope, now, takes_offers=not (self._stopping or self._draining))

    # -- own requests ---------------------------------------------------------------------------------------------

    def want(self, peer: EngineId, load: Load, now: Seconds) -> WantId | None:
        """Ask the peer to write blocks for a request that waits for them.

        The blocks, which the caller references during the call, are referenced until no write can reach them any more,
        whatever becomes of the request.

        Returns:
            The want's name: one `LoadEnded` will tell of its end. Or None if nothing was asked, because the peer doesn't
            answer, has parted, or too many blocks are in quarantine.
        """
        if self._stopping or self._wanting.quarantine.full or not self._peers.works_with(peer):
            self.tally.wants_ended[load.purpose, EndReason.REFUSED] += 1
            return None
        self._shared.pool.pin(load.blocks)
        return self._wanting.open(peer, load, now)

    def exposable(self) -> int:
        """How many more blocks may be wanted now: peers that fall silent keep them from all use."""
        return max(0, self._shared.settings.exposed_blocks - self._wanting.exposed)

    def cancel(self, request: RequestId, now: Seconds) -> None:
        """The live request waits no more for what it wants now; it may want again."""
        self._wanting.cancel_request(request, now)

    def request_produces(self, request: RequestId, hashes: Iterable[BlockHash]) -> None:
        """The live request will compute these hashes (its prompt's, then those that its output adds), or has them."""
        self._serving.request_produces(request, hashes)

    def offers_go_to(self, request: RequestId, peer: EngineId) -> None:
        """Offer to this peer, in batches, the blocks that the request computes from now on."""
        self._offering.to(request, peer)

    def request_ended(self, request: RequestId, now: Seconds, *, offer: bool) -> None:
        """The request was finished (`offer` the rest of its blocks) or aborted. Its open wants end."""
        self._wanting.cancel_request(request, now)
        self._serving.request_ended(request, now)
        self._offering.request_ended(request, offer=offer)

    # -- steps and workers ----------------------------------------------------------------------------------------

    def step_scheduled(self, step: StepId, fresh: Sequence[FreshBlocks]) -> None:
        """A step will fill these blocks; their names are in the cache already."""
        self._serving.step_scheduled(
            step, [pair for blocks in fresh for pair in zip(blocks.hashes, blocks.blocks, strict=True)]
        )
        for blocks in fresh:
            self._offering.computed(blocks)

    def step_finished(self, step: StepId) -> None:
        """The forward pass of this step, and of all before it, has run."""
        self._serving.step_finished(step)

    def write_ended(self, job: JobId, end: WriteEnd, now: Seconds) -> None:
        """No rank has the job in flight any more."""
        self._serving.write_ended(job, end, now)

    def want_received(self, want: WantId, indices: Iterable[Index], now: Seconds) -> None:
        """Peers wrote these blocks of a want, on all ranks."""
        self._wanting.received(want, indices, now)

    def _valid_now(self, blocks: Sequence[tuple[BlockHash, BlockId]]) -> None:
        self._serving.valid(blocks, None)

    def _served(self, want: ServedWant, now: Seconds) -> None:
        self._moving.served(want, now)

    # -- offers ---------------------------------------------------------------------------------------------------

    def offer(self, peer: EngineId, run: OfferedRun) -> None:
        """Offer these blocks to a peer, once, for it to take what it lacks."""
        if run.hashes and self._peers.works_with(peer):
            self._offering.offer(peer, Purpose.REVERSE_PUSH, run)

    def move(self, successor: EngineId, runs: Iterable[OfferedRun], now: Seconds) -> None:
        """Offer these, the most recently used first, as fast as the successor takes them; ends with `MoveEnded`."""
        self._moving.start(successor, runs, now)

    def moves_to(self, successor: EngineId) -> bool:
        """Whether something is being offered to it by `move`."""
        return self._moving.goes_to(successor)

    def drain(self) -> None:
        """The engine will end: it takes nothing more of what peers offer."""
        self._draining = True

    def stay(self) -> None:
        """It won't, after all: moves end, and offers are taken again."""
        self._draining = False
        self._moving.stop()

    # -- the whole ------------------------------------------------------------------------------------------------

    def reset(self, now: Seconds) -> None:
        """The prefix cache is about to be reset: no name means what it meant.

        Own wants end without anything good, peers get nothing more of what is not in flight. The pool can be reset when
        `held` is False.
        """
        self._wanting.cancel_all(EndReason.RESET, now)
        self._moving.stop()
        self._offering.clear()
        self._serving.give_up_all(MissingReason.RESET, now)

    def shutdown(self, now: Seconds) -> None:
        """The engine ends: own wants are cancelled, nothing new is wanted or served. Over when `held` is False."""
        self._stopping = True
        self._wanting.cancel_all(EndReason.CANCELLED, now)
        self._moving.stop()
        self._serving.refuse(MissingReason.SHUTDOWN, now)

    def tick(self, now: Seconds) -> None:
        """Time has passed: call it when `next_due` says so, or more often."""
        self._wanting.tick(now)
        self._serving.tick(now)
        self._moving.tick(now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do; None while only an event can change anything."""
        due = [part.next_due() for part in (self._wanting, self._serving, self._moving)]
        return min((at for at in due if at is not None), default=None)

    # -- questions ------------------------------------------------------------------------------------------------

    def set_waiting_tokens(self, tokens: int) -> None:
        """How many prompt tokens wait to be computed here; told to peers in pings."""
        self._wanting.pinging.waiting_tokens = tokens

    @property
    def expects_workers(self) -> bool:
        """The workers may report a write's end, or blocks that were received: the engine must go on stepping."""
        return self._serving.writing or self._wanting.answerable

    @property
    def held(self) -> bool:
        """The exchange holds references to blocks of the pool."""
        wants = self._wanting.open_wants + self._wanting.held_wants
        return self._serving.writing or self._serving.lingering or wants > 0

    def reaches(self, peer: EngineId) -> bool:
        """Whether the peer is connected and answers, and has not parted."""
        return self._peers.works_with(peer)

    def has_settled_with(self, peer: EngineId) -> bool:
        """Nothing is written to the peer or by it, nor will be unless something new begins."""
        return not (self._wanting.holds_of(peer) or self._serving.serves(peer))

    @property
    def at_rest(self) -> bool:
        """Nothing is moved, nobody waits for what this engine asked of peers, and they wait for nothing of it."""
        waits = self._moving or self._wanting.open_wants
        return not (waits or self._serving.active or self._serving.writing)

    def incoming_prefix(self, hashes: Iterable[BlockHash]) -> int:
        """How many of these, from the first on, are being written into this engine now."""
        return self._wanting.incoming.prefix(hashes)

    def gauges(self) -> Gauges:
        """What is held now."""
        return Gauges(
            wants_open=self._wanting.open_wants,
            wants_held=self._wanting.held_wants,
            blocks_quarantined=self._wanting.quarantine.blocks,
            blocks_landing=self._wanting.incoming.landing,
            blocks_pinned=self._serving.pinned,
            wants_served=self._serving.active,
            hashes_awaited=self._serving.awaited,
        )
