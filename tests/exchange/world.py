# SPDX-License-Identifier: Apache-2.0
"""Several engines, the network between them, and what may go wrong: lost, repeated and late messages, late writes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from tandem_connector.contract.messages import Envelope, Gone, Ping, Pong, Purpose, Want, decode, encode
from tandem_connector.exchange.commands import (
    DropPeer,
    ExpectWant,
    ForgetWant,
    Healthy,
    LandingCommitted,
    LandingEnded,
    LoadEnded,
    MoveEnded,
    PostWrite,
    Send,
    ServingEnded,
    Unhealthy,
    WithdrawWrites,
)
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.liveness import Liveness
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
)
from tests.exchange.toy_pool import ToyPool, Violation

POOL = 24
SETTINGS = ExchangeSettings(
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
    aborted: bool = False
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


@dataclass(eq=False)
class Flight:
    """A write that was posted: its blocks land one by one, in any order."""

    source: "Engine"
    write: Write
    left: list[int] = field(default_factory=list)


class Engine:
    """One incarnation: exchange, workers, requests, pool."""

    def __init__(self, id_: EngineId, make: Callable[[EngineId, ToyPool], Exchange], now: Seconds) -> None:
        self.id = id_
        self.pool = ToyPool(POOL)
        self.pool.keep_free = 2
        self.exchange = make(id_, self.pool)
        self.liveness = Liveness()
        self.inbox: list[Envelope] = []
        self.requests: dict[RequestId, Request] = {}
        self.leaving: list[Request] = []
        self.steps: list[Step] = []
        self.jobs: list[Write] = []
        self.ended_jobs: list[tuple[JobId, bool]] = []
        self.notified: list[tuple[WantId, tuple[Index, ...]]] = []
        self.asked: dict[WantId, Asked] = {}
        self.expected: dict[WantId, tuple[BlockId, ...]] = {}
        self.ran = StepId(0)
        self.alive = True
        self.died_at = Seconds(0)
        self.frozen = False
        self.thawed_at = now
        self.healthy = True


class World:
    """All engines by their place (address); each place has one living incarnation at a time."""

    def __init__(self, size: int, make: Callable[[EngineId, ToyPool], Exchange] | None = None) -> None:
        self.make = make or (lambda engine, pool: Exchange(engine, pool, SETTINGS))
        self.now = Seconds(1_000.0)
        self.network: list[Envelope] = []
        self.old_wants: list[Envelope] = []
        self.flights: list[Flight] = []
        self.everybody: dict[EngineId, Engine] = {}
        self.places: list[Engine] = []
        self.undeclared: list[Engine] = []
        self._incarnations = count(1)
        self._requests = count(1)
        self._steps = count(1)
        self.longest_wait = Seconds(0)
        self.wrong_content_seen = False
        for _ in range(size):
            self._start(len(self.places))

    # -- engines ----------------------------------------------------------------------------------------------------

    def _start(self, place: int) -> None:
        engine = Engine(EngineId(f"engine-{place}-{next(self._incarnations)}"), self.make, self.now)
        self.everybody[engine.id] = engine
        if place < len(self.places):
            self.places[place] = engine
        else:
            self.places.append(engine)
        for other in self.places:
            if other is not engine:
                engine.exchange.peer_connected(other.id, POOL, self.now)
                engine.liveness.connected(other.id, self.now)
                other.exchange.peer_connected(engine.id, POOL, self.now)
                other.liveness.connected(engine.id, self.now)

    def crash(self, place: int) -> None:
        """The process ends, and another begins at the same address."""
        dead = self.places[place]
        dead.alive = False
        dead.died_at = self.now
        self.undeclared.append(dead)
        self._start(place)

    def declare(self, dead: Engine) -> None:
        """The topology says that the pod is gone; all who run hear it."""
        if all(not engine.frozen for engine in self.places):
            self.undeclared.remove(dead)
            for engine in self.places:
                engine.liveness.forget(dead.id)
                engine.exchange.peer_gone(dead.id, self.now)
                self.act(engine)

    def freeze(self, engine: Engine) -> None:
        engine.frozen = True

    def thaw(self, engine: Engine) -> None:
        engine.frozen = False
        engine.thawed_at = self.now
        self._read(engine)
        self._tick(engine)

    # -- network ----------------------------------------------------------------------------------------------------

    def send(self, envelope: Envelope) -> None:
        self.network.append(decode(encode(envelope)))
        if isinstance(envelope.message, Want):
            self.old_wants = [*self.old_wants[-30:], envelope]

    def deliver(self, envelope: Envelope) -> None:
        """The message arrives at the address that its target has or had."""
        place = int(envelope.target.split("-")[1])
        engine = self.places[place]
        engine.inbox.append(envelope)
        if not engine.frozen:
            self._read(engine)

    def _read(self, engine: Engine) -> None:
        inbox, engine.inbox = engine.inbox, []
        for envelope in inbox:
            if engine.liveness.heard(envelope.sender, self.now):
                engine.exchange.peer_back(envelope.sender, self.now)
            if envelope.target == engine.id:
                if isinstance(envelope.message, Gone):
                    engine.liveness.forget(envelope.message.engine)
                    engine.exchange.peer_gone(envelope.message.engine, self.now)
                elif isinstance(envelope.message, Ping):
                    self.send(Envelope(engine.id, envelope.sender, Pong(0)))
            engine.exchange.receive(envelope, self.now)
            self.act(engine)

    # -- time -------------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        self.now = Seconds(self.now + seconds)
        self.longest_wait = max(self.longest_wait, Seconds(seconds))
        for flight in [flight for flight in self.flights if not flight.source.alive]:
            if self.now >= flight.source.died_at + SETTINGS.transport_bound:
                self.flights.remove(flight)
        for engine in list(self.places):
            if not engine.frozen:
                self._tick(engine)

    def pass_time(self, seconds: float) -> None:
        """Time passes, and the engines hear that the others live."""
        end = self.now + seconds
        while self.now < end:
            self.advance(min(0.5, end - self.now))
            for _ in range(2):
                for envelope in [envelope for envelope in self.network if isinstance(envelope.message, Ping | Pong)]:
                    self.network.remove(envelope)
                    self.deliver(envelope)

    def _tick(self, engine: Engine) -> None:
        change = engine.liveness.tick(self.now)
        for peer in change.silent:
            engine.exchange.peer_silent(peer, self.now)
        for peer in change.ping:
            self.send(Envelope(engine.id, peer, Ping((), (), WantId(0), 0)))
        engine.exchange.tick(self.now)
        due = engine.exchange.next_due()
        if due is not None and due <= self.now:
            raise Violation("a tick leaves something due")
        self.act(engine)
        for want, asked in engine.asked.items():
            if self.now > max(asked.deadline, engine.thawed_at) + self.longest_wait:
                raise Violation(f"want {want} of {engine.id} did not end in its time")

    # -- commands ---------------------------------------------------------------------------------------------------

    def act(self, engine: Engine) -> None:
        for command in engine.exchange.commands():
            match command:
                case Send():
                    self.send(Envelope(engine.id, command.peer, command.message))
                case PostWrite():
                    engine.jobs.append(command.write)
                case WithdrawWrites():
                    for write in [write for write in engine.jobs if write.job in command.jobs]:
                        engine.jobs.remove(write)
                        engine.ended_jobs.append((write.job, False))
                case ExpectWant():
                    engine.expected[command.want] = command.blocks
                case ForgetWant():
                    del engine.expected[command.want]
                case LoadEnded():
                    self._load_ended(engine, command)
                case DropPeer():
                    raise Violation(command.why)
                case Unhealthy() | Healthy():
                    engine.healthy = isinstance(command, Healthy)
                case LandingCommitted() | LandingEnded() | ServingEnded() | MoveEnded():
                    pass
                case unknown:
                    assert_never(unknown)

    # -- requests ---------------------------------------------------------------------------------------------------

    def begin(self, engine: Engine, hashes: tuple[BlockHash, ...], holder: Engine | None, *, wait: bool) -> None:
        """A request enters: it takes what is cached, and asks the holder for the rest, if there is one."""
        hits = []
        for block_hash in hashes:
            block = engine.pool.lookup(block_hash)
            if block is None or any(
                block in step_blocks.blocks for step in engine.steps for _, step_blocks in step.filled
            ):
                break
            hits.append(block)
        engine.pool.pin(hits)
        rest = engine.pool.take(len(hashes) - len(hits))
        if rest is None:
            engine.pool.unpin(hits)
            return
        request = Request(RequestId(f"r{next(self._requests)}"), hashes, [*hits, *rest], len(hits))
        engine.requests[request.id] = request
        engine.exchange.request_produces(request.id, hashes, self.now)
        if holder is not None and rest:
            purpose = Purpose.FORWARD if wait else Purpose.REVERSE_FETCH
            load = Load(request.id, purpose, hashes[len(hits) :], rest, TTL, wait)
            request.want = engine.exchange.want(holder.id, load, self.now)
            if request.want is not None:
                engine.asked[request.want] = Asked(request.id, Seconds(self.now + TTL), rest)
        self.act(engine)

    def _load_ended(self, engine: Engine, ended: LoadEnded) -> None:
        asked = engine.asked.pop(ended.want, None)
        if asked is None or asked.request != ended.request:
            raise Violation(f"want {ended.want} of {engine.id} ended twice, or for another request")
        request = engine.requests[ended.request]
        request.want = None
        good = 0
        while good < len(asked.blocks) and Index(good) in ended.good:
            good += 1
        for position in range(request.computed, request.computed + good):
            block = request.blocks[position]
            if engine.pool.contents[block] != request.hashes[position]:
                raise Violation(f"{engine.id} was told that block {block} is good")
            engine.pool.name(request.hashes[position], block)
        request.computed += good

    def schedule(self, engine: Engine, most: int) -> None:
        """A step: each running request fills its next blocks; their names are in the cache at once."""
        filled = []
        for request in engine.requests.values():
            position = request.computed
            blocks = tuple(request.blocks[position : position + most])
            if request.want is not None or not blocks:
                continue
            hashes = request.hashes[position : position + most]
            for block_hash, block in zip(hashes, blocks, strict=True):
                engine.pool.name(block_hash, block)
            request.computed += len(blocks)
            request.in_flight += 1
            filled.append((request, FreshBlocks(request.id, position, hashes, blocks)))
        step = Step(StepId(next(self._steps)), filled)
        engine.steps.append(step)
        engine.exchange.step_scheduled(step.id, [fresh for _, fresh in filled], self.now)
        self.act(engine)

    def run(self, engine: Engine) -> None:
        """The forward pass of the oldest step in flight."""
        step = engine.steps.pop(0)
        for request, fresh in step.filled:
            for block_hash, block in zip(fresh.hashes, fresh.blocks, strict=True):
                engine.pool.contents[block] = block_hash
            request.in_flight -= 1
        engine.ran = step.id
        engine.exchange.step_finished(step.id, self.now)
        self.act(engine)
        for request in [request for request in engine.leaving if not request.in_flight]:
            engine.leaving.remove(request)
            engine.pool.unpin(request.blocks[::-1])

    def end(self, engine: Engine, request: Request, *, offer: bool) -> None:
        """The request is finished or aborted; its blocks are freed when no step in flight fills them."""
        engine.exchange.request_ended(request.id, self.now, offer=offer)
        self.act(engine)
        del engine.requests[request.id]
        if request.in_flight:
            engine.leaving.append(request)
        else:
            engine.pool.unpin(request.blocks[::-1])

    def reset(self, engine: Engine) -> None:
        engine.exchange.reset(self.now)
        self.act(engine)
        engine.pool.reset()

    # -- workers ----------------------------------------------------------------------------------------------------

    def postable(self, engine: Engine) -> list[Write]:
        return [write for write in engine.jobs if write.after is None or write.after <= engine.ran]

    def post(self, engine: Engine, write: Write, *, fail: bool = False, ignore_deadline: bool = False) -> None:
        """The workers take up a job. They must not post it after its deadline, but nothing may depend on that."""
        engine.jobs.remove(write)
        if fail or (self.now > write.deadline and not ignore_deadline):
            engine.ended_jobs.append((write.job, False))
        else:
            self.flights.append(Flight(engine, write, list(range(len(write.indices)))))

    def land(self, flight: Flight, which: int) -> None:
        """One block arrives, with the content that its source has now."""
        position = flight.left.pop(which % len(flight.left))
        write = flight.write
        target = self.everybody[write.peer]
        if target.alive:
            self.check_owned(target, write, position)
            content = flight.source.pool.contents[write.sources[position]]
            target.pool.contents[write.destinations[position]] = content
        if not flight.left:
            self.flights.remove(flight)
            if target.alive:
                target.notified.append((write.want, write.indices))
            if flight.source.alive:
                flight.source.ended_jobs.append((write.job, target.alive))

    def check_owned(self, target: Engine, write: Write, position: int) -> None:
        blocks = target.expected.get(write.want)
        if blocks is None or blocks[write.indices[position]] != write.destinations[position]:
            raise Violation(
                f"a write lands in block {write.destinations[position]} of {target.id}, which want {write.want} left"
            )

    def tear(self, flight: Flight) -> None:
        """The write ends in the middle, on an error."""
        self.flights.remove(flight)
        if flight.source.alive:
            flight.source.ended_jobs.append((flight.write.job, False))

    def report(self, engine: Engine) -> None:
        """The workers' news reach the scheduler."""
        notified, engine.notified = engine.notified, []
        for want, indices in notified:
            engine.exchange.want_received(want, indices, self.now)
        ended, engine.ended_jobs = engine.ended_jobs, []
        for job, written in ended:
            engine.exchange.write_ended(job, self.now, written=written)
        self.act(engine)

    # -- what must always hold --------------------------------------------------------------------------------------

    def check(self) -> None:
        for engine in self.places:
            pool = engine.pool
            filling = {block for step in engine.steps for _, fresh in step.filled for block in fresh.blocks}
            for block_hash, block in pool.names.items():
                if block not in filling and pool.contents[block] != block_hash:
                    raise Violation(f"block {block} of {engine.id} is {pool.contents[block]!r}, not {block_hash!r}")
            for block in (block for request in engine.requests.values() for block in request.blocks):
                if not pool.references[block]:
                    raise Violation(f"block {block} of a request of {engine.id} is free")

    def settle(self) -> None:
        """Nothing goes wrong any more: all runs until nobody waits for anything."""
        for engine in self.places:
            if engine.frozen:
                self.thaw(engine)
        for engine in self.places:
            for request in list(engine.requests.values()):
                if request.want is None:
                    while request.computed < len(request.blocks):
                        self.schedule(engine, POOL)
            self._run_all(engine)
        for _ in range(60):
            self._deliver_all()
            self.advance(0.5)
            for dead in list(self.undeclared):
                self.declare(dead)
        for engine in self.places:
            self._run_all(engine)
            for request in list(engine.requests.values()):
                if request.want is not None:
                    raise Violation(f"{request.id} of {engine.id} waits for ever")
                self.end(engine, request, offer=False)
        for _ in range(20):
            self._deliver_all()
            self.advance(0.5)
        for engine in self.places:
            gauges = engine.exchange.gauges()
            if engine.exchange.held or any(engine.pool.references) or engine.expected:
                raise Violation(f"{engine.id} leaks: {gauges}, references {engine.pool.references}")
            if gauges.wants_served or gauges.hashes_awaited or gauges.blocks_landing or gauges.blocks_quarantined:
                raise Violation(f"{engine.id} remembers what is over: {gauges}")
            if not engine.healthy:
                raise Violation(f"{engine.id} is not healthy again")
            if engine.exchange.commands():
                raise Violation("commands were left")

    def _run_all(self, engine: Engine) -> None:
        while engine.steps:
            self.run(engine)

    def _deliver_all(self) -> None:
        while self.network or self.flights or any(e.jobs or e.ended_jobs or e.notified for e in self.places):
            network, self.network = self.network, []
            for envelope in network:
                self.deliver(envelope)
            for engine in self.places:
                for write in self.postable(engine):
                    self.post(engine, write)
            for flight in list(self.flights):
                while flight.left:
                    self.land(flight, 0)
            for engine in self.places:
                self.report(engine)
