# SPDX-License-Identifier: Apache-2.0
"""Peers' wants: what is written when, what is reported missing, and what must never be written again.

An index that was reported missing is never written later, and a want that is over is never served again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tandem_connector.contract.messages import CancelAck, Missing, MissingReason, Ping, Want
from tandem_connector.exchange.availability import Awaited, Fresh, Producers
from tandem_connector.exchange.commands import Send, ServingEnded
from tandem_connector.exchange.ledger import Ledgers
from tandem_connector.exchange.posting import Found, Posting
from tandem_connector.exchange.served_want import ServedState, ServedWant
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EngineId,
    Index,
    JobId,
    RequestId,
    Seconds,
    StepId,
    WantId,
    WriteEnd,
)

OnServed: TypeAlias = Callable[[ServedWant, Seconds], None]
"""Told when a peer's want is over."""


class Serving:
    """All peers' wants."""

    def __init__(self, shared: Shared, on_served: OnServed) -> None:
        self._settings = shared.settings
        self._pool = shared.pool
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._tally = shared.tally
        self._on_served = on_served
        self._ledgers = Ledgers(shared.settings)
        self._awaited: Awaited[ServedWant] = Awaited()
        self._fresh = Fresh()
        self._posting = Posting(shared, self._fresh)
        self._producers = Producers()
        self._deadlines: Timers[ServedWant] = Timers()
        self._patience: Timers[ServedWant] = Timers()
        self._refusal: MissingReason | None = None

    # -- messages -------------------------------------------------------------------------------------------------

    def wanted(self, peer: EngineId, message: Want, now: Seconds) -> None:
        """Serve a want, unless it is known: a repeated message, or one that is over."""
        ledger = self._ledgers.of(peer)
        if message.want in ledger.active or ledger.tombstones.covers(message.want):
            return
        self._tally.blocks_asked[message.purpose] += len(message.hashes)
        refusal = self._refusal
        if refusal is None and (self._peers.has_parted(peer) or not ledger.has_room(len(message.hashes))):
            refusal = MissingReason.REFUSED
        if refusal is not None:
            ledger.tombstones.bury(message.want, None)
            self._tally.blocks_missing[message.purpose, refusal] += len(message.hashes)
            self._outbox.put(Send(peer, Missing(message.want, None, refusal)))
            return
        want = ServedWant(
            peer=peer,
            id=message.want,
            purpose=message.purpose,
            hashes=message.hashes,
            destinations=tuple(BlockId(block) for block in message.destinations),
            wait=message.wait,
            begun=now,
            deadline=Seconds(now + message.ttl * (1 - self._settings.post_margin)),
            offer=message.offer,
        )
        ledger.begin(want)
        self._deadlines.set(want, want.deadline)
        self._start(want, now)
        self._settle(want, now)

    def _start(self, want: ServedWant, now: Seconds) -> None:
        found, absent = self._posting.find(want, [Index(index) for index in range(len(want.hashes))])
        for after, blocks in found.items():
            self._posting.post(want, blocks, after)
        if not want.wait:
            self._give_up(want, absent, MissingReason.NOT_CACHED)
        elif absent:
            want.pending.update(absent)
            for index in absent:
                self._awaited.add(want.hashes[index], want, index)
            self._patience.set(want, Seconds(now + self._settings.nobody_grace))

    def cancelled(self, peer: EngineId, want_id: WantId, now: Seconds) -> None:
        """The wanter waits no more; acknowledge it when nothing is in flight."""
        ledger = self._ledgers.of(peer)
        want = ledger.active.get(want_id)
        if want is None:
            self._outbox.put(Send(peer, ledger.acknowledge(want_id)))
        else:
            self._stop(want, ServedState.CANCELLED, now)

    def pinged(self, peer: EngineId, ping: Ping, now: Seconds) -> None:
        """Say again what the wanter must know of its wants and may have missed."""
        ledger = self._ledgers.of(peer)
        for message in ledger.repeat(ping.open):
            self._outbox.put(Send(peer, message))
        for want_id in ping.cancelling:
            self.cancelled(peer, want_id, now)
        ledger.tombstones.raise_floor(ping.oldest)

    # -- writes ---------------------------------------------------------------------------------------------------

    def write_ended(self, job: JobId, end: WriteEnd, now: Seconds) -> None:
        """No rank has the job in flight any more, as far as it knows."""
        want, write = self._posting.ended(job, end, now)
        match end:
            case WriteEnd.WRITTEN:
                want.written += len(write.indices)
                self._tally.count_written(want.peer, want.purpose, len(write.indices))
            case WriteEnd.NOT_WRITTEN:
                self._report(want, write.indices, MissingReason.WRITE_FAILED)
            case WriteEnd.UNCERTAIN:
                want.uncertain = True
                self._report(want, write.indices, MissingReason.UNCERTAIN)
        self._post_waiting(now)
        self._settle(want, now)

    def _post_waiting(self, now: Seconds) -> None:
        for waiting, lost in self._posting.post_waiting():
            self._report(waiting, lost, MissingReason.NOT_CACHED)
            self._settle(waiting, now)

    # -- blocks ---------------------------------------------------------------------------------------------------

    def valid(self, blocks: Iterable[tuple[BlockHash, BlockId]], after: StepId | None) -> None:
        """These hashes are in these blocks, by the end of the step `after` or now: write them to all who wait."""
        found: dict[ServedWant, Found] = {}
        for block_hash, block in blocks:
            for want, index in self._awaited.of(block_hash):
                self._await_no_more(want, index)
                found.setdefault(want, []).append((index, block))
        for want, places in found.items():
            self._posting.post(want, places, after)

    def step_scheduled(self, step: StepId, blocks: Sequence[tuple[BlockHash, BlockId]]) -> None:
        """The step fills these blocks."""
        if blocks:
            self._fresh.add(step, (block for _, block in blocks))
            self.valid(blocks, step)

    def step_finished(self, step: StepId) -> None:
        """The forward pass of the step, and those before it, have run."""
        self._fresh.finish(step)

    def request_produces(self, request: RequestId, hashes: Iterable[BlockHash]) -> None:
        """The live request will compute these hashes, or has them."""
        self._producers.add(request, hashes)

    def request_ended(self, request: RequestId, now: Seconds) -> None:
        """What only this request would have computed will not come."""
        orphans: dict[ServedWant, list[Index]] = {}
        for block_hash in self._producers.end(request):
            for want, index in self._awaited.of(block_hash):
                if not want.patient:
                    orphans.setdefault(want, []).append(index)
        for want, indices in orphans.items():
            self._orphaned(want, indices)
            self._settle(want, now)

    def _orphaned(self, want: ServedWant, indices: Sequence[Index]) -> None:
        """No live request will compute these. One may have come into the cache by a way that nobody told of."""
        found, absent = self._posting.find(want, indices)
        for after, blocks in found.items():
            for index, _ in blocks:
                self._await_no_more(want, index)
            self._posting.post(want, blocks, after)
        self._give_up(want, absent, MissingReason.NOBODY)

    def _await_no_more(self, want: ServedWant, index: Index) -> None:
        want.pending.remove(index)
        self._awaited.discard(want.hashes[index], want, index)

    # -- ends -----------------------------------------------------------------------------------------------------

    def _give_up(self, want: ServedWant, indices: Iterable[Index], why: MissingReason) -> None:
        """These will not come, neither from the cache nor from a step."""
        given_up = sorted(indices)
        for index in given_up:
            if index in want.pending:
                self._await_no_more(want, index)
            want.ready.discard(index)
        self._report(want, given_up, why)

    def _report(self, want: ServedWant, indices: Sequence[Index], why: MissingReason) -> None:
        if not indices:
            return
        want.missing.extend(indices)
        if want.state is ServedState.OPEN:
            self._tally.blocks_missing[want.purpose, why] += len(indices)
            self._outbox.put(Send(want.peer, Missing(want.id, tuple(indices), why)))

    def _stop(self, want: ServedWant, state: ServedState, now: Seconds) -> None:
        """Post nothing more for the want, and end it when what is in flight has ended."""
        if want.state is state:
            return
        want.state = state
        self._give_up(want, want.pending | want.ready, MissingReason.EXPIRED)
        self._posting.withdraw(want)
        self._settle(want, now)

    def _settle(self, want: ServedWant, now: Seconds) -> None:
        ledger = self._ledgers.known(want.peer)
        if ledger is None or not want.over or not ledger.end(want):
            return
        self._deadlines.cancel(want)
        self._patience.cancel(want)
        ledger.tombstones.bury(want.id, tuple(sorted(want.missing)), uncertain=want.uncertain)
        if want.state is ServedState.CANCELLED:
            self._outbox.put(Send(want.peer, CancelAck(want.id, want.uncertain)))
        self._outbox.put(ServingEnded(want.id, want.peer, want.purpose, want.written, len(want.missing)))
        if want.state is ServedState.ABANDONED:
            self._ledgers.close(want.peer)
        self._on_served(want, now)

    def peer_silent(self, peer: EngineId, now: Seconds) -> None:
        """Nothing is heard from the wanter: write nothing that was not asked for of the workers."""
        self._give_up_all(self._ledgers.wants_of(peer), MissingReason.UNREACHABLE, now)

    def peer_gone(self, peer: EngineId, now: Seconds) -> None:
        """The wanter has ended."""
        for want in self._ledgers.wants_of(peer):
            self._stop(want, ServedState.ABANDONED, now)
        self._ledgers.close(peer)

    def refuse(self, why: MissingReason, now: Seconds) -> None:
        """Serve no new want, and give up what is not in flight."""
        self._refusal = why
        self.give_up_all(why, now)

    def give_up_all(self, why: MissingReason, now: Seconds) -> None:
        """Nothing that is not in flight will be written for the wants of now."""
        self._give_up_all(self._ledgers.wants(), why, now)

    def _give_up_all(self, wants: Iterable[ServedWant], why: MissingReason, now: Seconds) -> None:
        for want in wants:
            self._give_up(want, want.pending | want.ready, why)
            self._settle(want, now)

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: Seconds) -> None:
        """Give up what nobody will compute, and what has run out of time; free what no broken write can read any more."""
        if self._posting.tick(now):
            self._post_waiting(now)
        for want in self._patience.pop_due(now):
            want.patient = False
            self._orphaned(want, [index for index in want.pending if want.hashes[index] not in self._producers])
            self._settle(want, now)
        for want in self._deadlines.pop_due(now):
            self._give_up(want, want.pending | want.ready, MissingReason.EXPIRED)
            self._settle(want, now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        due = (self._patience.next_due(), self._deadlines.next_due(), self._posting.next_due())
        return min((at for at in due if at is not None), default=None)

    # -- questions ------------------------------------------------------------------------------------------------

    def serves(self, peer: EngineId) -> bool:
        """Whether a want of the peer is not over."""
        return bool(self._ledgers.wants_of(peer))

    @property
    def active(self) -> int:
        """Wants that are not over."""
        return len(self._ledgers.wants())

    @property
    def awaited(self) -> int:
        """Different hashes that peers wait for."""
        return len(self._awaited)

    @property
    def pinned(self) -> int:
        """Own blocks referenced for writes."""
        return self._posting.pinned

    @property
    def writing(self) -> bool:
        """A write is in flight, or will be when another has ended."""
        return bool(self._posting)

    @property
    def lingering(self) -> bool:
        """Own blocks are referenced for writes that broke."""
        return self._posting.lingering
