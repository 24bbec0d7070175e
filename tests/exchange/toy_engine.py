# SPDX-License-Identifier: Apache-2.0
"""One incarnation of an engine as far as the exchange can tell: requests, steps, workers, and a toy pool."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tandem_connector.contract.messages import Envelope, Purpose
from tandem_connector.exchange.commands import LoadEnded
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.liveness import Liveness, LivenessSettings
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EngineId,
    FreshBlocks,
    Index,
    JobId,
    Load,
    RequestId,
    Seconds,
    StepId,
    WantId,
    Write,
    WriteEnd,
)
from tests.exchange.toy_pool import BLOCK_SIZE, ToyPool, Violation

POOL = 24
SETTINGS = ExchangeSettings(
    block_size=BLOCK_SIZE,
    landing_ttl=Seconds(3.0),
    nobody_grace=Seconds(1.0),
    transport_bound=Seconds(4.0),
    cancel_patience=Seconds(2.0),
    quarantine_blocks=10,
    landing_blocks=8,
    landing_blocks_per_peer=6,
    pinned_blocks=8,
    blocks_per_write=3,
    tombstones_per_peer=6,
    wants_per_peer=4,
    offer_every=2,
    move_batch=3,
)
TTL = Seconds(5.0)


@dataclass(eq=False)
class Request:
    """A prompt that an engine computes, with what it holds for it."""

    id: RequestId
    hashes: tuple[BlockHash, ...]
    blocks: list[BlockId]
    computed: int
    """Blocks from the first on whose content is right, or will be by steps in flight."""
    want: WantId | None = None
    in_flight: int = 0
    """Steps in flight that fill blocks of it."""


@dataclass(eq=False)
class Step:
    id: StepId
    filled: list[tuple[Request, FreshBlocks]]


@dataclass(eq=False)
class Asked:
    """A want, as its owner remembers it."""

    request: RequestId
    deadline: Seconds
    blocks: tuple[BlockId, ...]


class Engine:
    """One incarnation: exchange, workers, requests, pool."""

    def __init__(
        self, id_: EngineId, make: Callable[[EngineId, ToyPool], Exchange], now: Seconds, *, publishes: bool
    ) -> None:
        self.id = id_
        self.pool = ToyPool(POOL, publishes=publishes)
        self.pool.keep_free = 2
        self.exchange = make(id_, self.pool)
        self.liveness = Liveness(LivenessSettings(silent_after=2.0))
        self.inbox: list[Envelope] = []
        self.requests: dict[RequestId, Request] = {}
        self.ending: list[Request] = []
        self.leaving: list[Request] = []
        self.steps: list[Step] = []
        self.jobs: list[Write] = []
        self.ended_jobs: list[tuple[JobId, WriteEnd]] = []
        self.notified: list[tuple[WantId, tuple[Index, ...]]] = []
        self.asked: dict[WantId, Asked] = {}
        self.expected: dict[WantId, tuple[BlockId, ...]] = {}
        self.ran = StepId(0)
        self.alive = True
        self.died_at = Seconds(0)
        self.frozen = False
        self.thawed_at = now
        self.healthy = True
        self.parted: set[EngineId] = set()
        self.unranked: set[EngineId] = set()
        """Of these, those that the workers have no connection to any more."""
        self.received: Counter[Purpose] = Counter()
        self.written: Counter[Purpose] = Counter()
        """Blocks, summed up over all peers."""

    # -- requests ---------------------------------------------------------------------------------------------------

    def begin(
        self,
        request_id: RequestId,
        hashes: tuple[BlockHash, ...],
        holder: EngineId | None,
        now: Seconds,
        *,
        wait: bool,
    ) -> Request | None:
        """A request enters: it takes what is cached, and asks the holder for the rest, if there is one."""
        allocated = self._allocate(hashes)
        if allocated is None:
            return None
        blocks, hits = allocated
        request = self.requests[request_id] = Request(request_id, hashes, blocks, hits)
        self.exchange.request_produces(request_id, hashes)
        rest = tuple(blocks[hits:])
        if holder is not None and rest:
            purpose = Purpose.FORWARD if wait else Purpose.REVERSE_FETCH
            load = Load(request_id, purpose, hashes[hits:], rest, TTL, wait)
            request.want = self.exchange.want(holder, load, now)
            if request.want is not None:
                self.asked[request.want] = Asked(request_id, Seconds(now + TTL), rest)
        return request

    def _allocate(self, hashes: tuple[BlockHash, ...]) -> tuple[list[BlockId], int] | None:
        """Blocks for these, and how many of them, from the first on, are cached."""
        filling = self.filling()
        hits: list[BlockId] = []
        for block_hash in hashes:
            block = self.pool.lookup(block_hash)
            if block is None or block in filling:
                break
            hits.append(block)
        self.pool.pin(hits)
        rest = self.pool.take(len(hashes) - len(hits))
        if rest is None:
            self.pool.unpin(hits)
            return None
        return [*hits, *rest], len(hits)

    def load_ended(self, ended: LoadEnded) -> None:
        """The request goes on: what is good, up to the first that is not, is in the cache now."""
        asked = self.asked.pop(ended.want, None)
        if asked is None or asked.request != ended.request:
            raise Violation(f"want {ended.want} of {self.id} ended twice, or for another request")
        request = self.requests[ended.request]
        request.want = None
        good = 0
        while good < len(asked.blocks) and Index(good) in ended.good:
            good += 1
        for position in range(request.computed, request.computed + good):
            block = request.blocks[position]
            if self.pool.contents[block] != request.hashes[position]:
                raise Violation(f"{self.id} was told that block {block} is good")
            self.pool.name(request.hashes[position], block)
        request.computed += good

    def schedule(self, step_id: StepId, most: int, now: Seconds) -> None:
        """A step: each running request fills its next blocks; their names are in the cache at once."""
        filled = []
        for request in self.requests.values():
            position = request.computed
            blocks = tuple(request.blocks[position : position + most])
            if request.want is not None or not blocks:
                continue
            hashes = request.hashes[position : position + most]
            for block_hash, block in zip(hashes, blocks, strict=True):
                self.pool.name(block_hash, block)
            request.computed += len(blocks)
            request.in_flight += 1
            filled.append((request, FreshBlocks(request.id, position, hashes, blocks)))
        self.steps.append(Step(step_id, filled))
        self.exchange.step_scheduled(step_id, [fresh for _, fresh in filled])

    def run(self, now: Seconds) -> None:
        """The forward pass of the oldest step in flight."""
        step = self.steps.pop(0)
        for request, fresh in step.filled:
            for block_hash, block in zip(fresh.hashes, fresh.blocks, strict=True):
                self.pool.contents[block] = block_hash
            request.in_flight -= 1
        self.ran = step.id
        self.exchange.step_finished(step.id)
        for request in [request for request in self.leaving if not request.in_flight]:
            self.leaving.remove(request)
            self.pool.unpin(request.blocks[::-1])

    def preempt(self, request: Request, now: Seconds) -> None:
        """The request loses its blocks and begins again; if the pool is full, it is aborted."""
        self.pool.unpin(request.blocks[::-1])
        request.blocks = []
        allocated = self._allocate(request.hashes)
        if allocated is None:
            self.end(request, now, offer=False)
        else:
            request.blocks, request.computed = allocated

    def end(self, request: Request, now: Seconds, *, offer: bool) -> None:
        """The request is finished or aborted; its blocks are freed when no step in flight fills them.

        If it waits for a want, the end of that want is among the commands, and comes before.
        """
        self.exchange.request_ended(request.id, now, offer=offer)
        self.ending.append(request)

    def leave(self) -> None:
        """Forget the requests that ended, now that all commands about them were carried out."""
        for request in self.ending:
            if request.want is not None:
                raise Violation(f"{request.id} of {self.id} ended, but its want did not")
            del self.requests[request.id]
            if request.in_flight:
                self.leaving.append(request)
            else:
                self.pool.unpin(request.blocks[::-1])
        self.ending.clear()

    # -- workers ----------------------------------------------------------------------------------------------------

    def postable(self) -> list[Write]:
        """Jobs whose sources are valid, as far as the exchange knows."""
        return [write for write in self.jobs if write.after is None or write.after <= self.ran]

    def report(self, now: Seconds) -> None:
        """The workers' news reach the scheduler."""
        notified, self.notified = self.notified, []
        for want, indices in notified:
            self.exchange.want_received(want, indices, now)
        ended, self.ended_jobs = self.ended_jobs, []
        for job, end in ended:
            self.exchange.write_ended(job, end, now)

    # -- what must always hold --------------------------------------------------------------------------------------

    def filling(self) -> set[BlockId]:
        """Blocks whose content is right only when the steps in flight have run."""
        return {block for step in self.steps for _, fresh in step.filled for block in fresh.blocks}

    def check(self) -> None:
        """Every name has its content, and every request its blocks."""
        filling = self.filling()
        for block_hash, block in self.pool.names.items():
            content = self.pool.contents[block]
            if block not in filling and content != block_hash:
                raise Violation(f"block {block} of {self.id} is {content!r}, not {block_hash!r}")
        for block in (block for request in self.requests.values() for block in request.blocks):
            if not self.pool.references[block]:
                raise Violation(f"block {block} of a request of {self.id} is free")
        self._check_peers_sum_up()

    def _check_peers_sum_up(self) -> None:
        """What went between this engine and each of its peers is, all together, what it says of itself."""
        tally = self.exchange.tally
        moved = tally.take_moved()
        for total, news, blocks in (
            (self.received, moved.received, tally.blocks_received),
            (self.written, moved.written, tally.blocks_written),
        ):
            for (_, purpose), added in news.items():
                total[purpose] += added
            if +total != +blocks:
                raise Violation(f"peers of {self.id} have {total}, it has {blocks}")

    def check_at_rest(self) -> None:
        """Nothing is held and nothing is remembered of what is over."""
        gauges = self.exchange.gauges()
        if self.exchange.held or any(self.pool.references) or self.expected:
            raise Violation(f"{self.id} leaks: {gauges}, references {self.pool.references}")
        if gauges.wants_served or gauges.hashes_awaited or gauges.blocks_landing or gauges.blocks_quarantined:
            raise Violation(f"{self.id} remembers what is over: {gauges}")
        if not self.healthy:
            raise Violation(f"{self.id} is not healthy again")
        if self.exchange.commands():
            raise Violation("commands were left")
