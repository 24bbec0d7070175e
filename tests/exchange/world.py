# SPDX-License-Identifier: Apache-2.0
"""Several engines, the network between them, and what may go wrong: lost, repeated and late messages, late writes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from tandem_connector.contract.messages import Envelope, Gone, Ping, Pong, Want, decode, encode
from tandem_connector.exchange.commands import (
    Command,
    DropPeer,
    ExpectFewer,
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
from tandem_connector.exchange.types import (
    BlockHash,
    EngineId,
    RequestId,
    Seconds,
    StepId,
    WantId,
    Write,
    WriteEnd,
)
from tests.exchange.toy_engine import POOL, SETTINGS, Engine, Request
from tests.exchange.toy_pool import ToyPool, Violation


@dataclass(eq=False)
class Flight:
    """A write that was posted: its blocks land one by one, in any order."""

    source: "Engine"
    write: Write
    left: list[int] = field(default_factory=list)
    broken_at: Seconds | None = None
    """When the connection broke: its source was told then that it has ended."""


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
        for _ in range(size):
            self._start(len(self.places))

    # -- engines ----------------------------------------------------------------------------------------------------

    def _start(self, place: int) -> None:
        name = EngineId(f"engine-{place}-{next(self._incarnations)}")
        engine = Engine(name, self.make, self.now, publishes=place % 2 == 1)
        self.everybody[engine.id] = engine
        if place < len(self.places):
            self.places[place] = engine
        else:
            self.places.append(engine)
        for other in self.places:
            if other is not engine:
                engine.exchange.peer_connected(other.id, POOL, self.now, publishes=other.pool.publishes)
                engine.liveness.connected(other.id, self.now)
                other.exchange.peer_connected(engine.id, POOL, self.now, publishes=engine.pool.publishes)
                other.liveness.connected(engine.id, self.now)

    def crash(self, place: int) -> None:
        """The process ends, and another begins at the same address."""
        dead = self.places[place]
        dead.alive = False
        dead.died_at = self.now
        self.undeclared.append(dead)
        self._start(place)

    def shut_down(self, engine: Engine) -> None:
        """The engine ends in order. If all hear it, the end of its process leaves nobody with blocks that can't be reused."""
        for other in self.places:
            while other.steps and not other.frozen:
                self.run(other)
        for request in list(engine.requests.values()):
            self.end(engine, request, offer=False)
        engine.exchange.shutdown(self.now)
        self.act(engine)
        if any(other.frozen for other in self.places):
            return
        # A message may have been lost: then the next ping tells. It is too early for who waits to be told that nobody computes.
        for _ in range(3):
            self._deliver_all()
            self.advance(SETTINGS.nobody_grace / 4)
        self._deliver_all()
        if engine.exchange.expects_workers:
            raise Violation(f"{engine.id} does not come to its end")
        others = [other for other in self.places if other is not engine]
        before = [other.exchange.gauges().blocks_quarantined for other in others]
        self.crash(self.places.index(engine))
        self.declare(engine)
        if [other.exchange.gauges().blocks_quarantined for other in others] != before:
            raise Violation(f"the end of {engine.id} leaves blocks in quarantine")

    def declare(self, dead: Engine) -> None:
        """The topology says that the pod is gone; all who run hear it."""
        if all(not engine.frozen for engine in self.places):
            self.undeclared.remove(dead)
            for engine in self.places:
                engine.liveness.forget(dead.id)
                engine.exchange.peer_gone(dead.id, self.now)
                self.act(engine)

    def part(self, engine: Engine, other: Engine) -> None:
        """The topology doesn't have these two work together any more; only one of them has heard so."""
        engine.exchange.peer_parted(other.id)
        engine.parted.add(other.id)
        self.act(engine)

    def join_again(self, engine: Engine, other: Engine) -> None:
        engine.parted.discard(other.id)
        engine.unranked.discard(other.id)
        engine.exchange.peer_returned(other.id)
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
        for flight in list(self.flights):
            ended_at = flight.broken_at if flight.source.alive else flight.source.died_at
            if ended_at is not None and self.now >= ended_at + SETTINGS.transport_bound:
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
            self.check_parting(engine, command)
            match command:
                case Send():
                    self.send(Envelope(engine.id, command.peer, command.message))
                case PostWrite():
                    engine.jobs.append(command.write)
                case WithdrawWrites():
                    for write in [write for write in engine.jobs if write.job in command.jobs]:
                        engine.jobs.remove(write)
                        engine.ended_jobs.append((write.job, WriteEnd.NOT_WRITTEN))
                case ExpectWant() | ExpectFewer() | ForgetWant():
                    self.expect(engine, command)
                case LoadEnded():
                    engine.load_ended(command)
                case DropPeer():
                    raise Violation(command.why)
                case Unhealthy() | Healthy():
                    engine.healthy = isinstance(command, Healthy)
                case LandingCommitted() | LandingEnded() | ServingEnded() | MoveEnded():
                    pass
                case unknown:
                    assert_never(unknown)
        engine.leave()
        engine.unranked.update(peer for peer in engine.parted if engine.exchange.has_settled_with(peer))

    @staticmethod
    def check_parting(engine: Engine, command: Command) -> None:
        match command:
            case Send(peer, Want()) if peer in engine.parted:
                raise Violation(f"{engine.id} wants of {peer}, which has parted")
            case PostWrite(write) if write.peer in engine.unranked:
                raise Violation(f"a write of {engine.id} to {write.peer}, to which it is not connected")

    @staticmethod
    def expect(engine: Engine, command: ExpectWant | ExpectFewer | ForgetWant) -> None:
        match command:
            case ExpectWant():
                engine.expected[command.want] = command.blocks
            case ExpectFewer():
                if not 0 < command.blocks < len(engine.expected[command.want]):
                    raise Violation(f"{command.blocks} fewer of {len(engine.expected[command.want])}")
            case ForgetWant():
                del engine.expected[command.want]

    # -- workers ----------------------------------------------------------------------------------------------------

    def post(self, engine: Engine, write: Write, *, fail: bool = False, ignore_deadline: bool = False) -> None:
        """The workers take up a job. They must not post it after its deadline, but nothing may depend on that."""
        engine.jobs.remove(write)
        if fail or (self.now > write.deadline and not ignore_deadline):
            engine.ended_jobs.append((write.job, WriteEnd.NOT_WRITTEN))
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
            if target.alive and flight.broken_at is None:
                target.notified.append((write.want, write.indices))
            if flight.source.alive and flight.broken_at is None:
                end = WriteEnd.WRITTEN if target.alive else WriteEnd.UNCERTAIN
                flight.source.ended_jobs.append((write.job, end))

    def check_owned(self, target: Engine, write: Write, position: int) -> None:
        blocks = target.expected.get(write.want)
        if blocks is None or blocks[write.indices[position]] != write.destinations[position]:
            raise Violation(
                f"a write lands in block {write.destinations[position]} of {target.id}, which want {write.want} left"
            )

    def tear(self, flight: Flight) -> None:
        """The connection breaks under the write: what is left of it may still land, for some time."""
        if flight.source.alive and flight.broken_at is None:
            flight.broken_at = self.now
            flight.source.ended_jobs.append((flight.write.job, WriteEnd.UNCERTAIN))

    # -- requests and steps -----------------------------------------------------------------------------------------

    def begin(
        self, engine: Engine, hashes: tuple[BlockHash, ...], holder: Engine | None, *, wait: bool
    ) -> Request | None:
        """A request enters; None if there are no blocks for it."""
        request_id = RequestId(f"r{next(self._requests)}")
        request = engine.begin(request_id, hashes, holder.id if holder else None, self.now, wait=wait)
        self.act(engine)
        return request

    def schedule(self, engine: Engine, most: int) -> None:
        engine.schedule(StepId(next(self._steps)), most, self.now)
        self.act(engine)

    def run(self, engine: Engine) -> None:
        engine.run(self.now)
        self.act(engine)

    def end(self, engine: Engine, request: Request, *, offer: bool) -> None:
        engine.end(request, self.now, offer=offer)
        self.act(engine)

    def preempt(self, engine: Engine, request: Request) -> None:
        engine.preempt(request, self.now)
        self.act(engine)

    def report(self, engine: Engine) -> None:
        engine.report(self.now)
        self.act(engine)

    def reset(self, engine: Engine) -> None:
        engine.exchange.reset(self.now)
        self.act(engine)
        engine.pool.reset()

    # -- the end ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        for engine in self.places:
            engine.check()

    def settle(self) -> None:
        """Nothing goes wrong any more: all runs until nobody waits for anything."""
        for engine in self.places:
            if engine.frozen:
                self.thaw(engine)
            self._compute_all(engine)
        self._rest(30.0)
        for dead in list(self.undeclared):
            self.declare(dead)
        self._rest(10.0)
        for engine in self.places:
            for request in list(engine.requests.values()):
                if request.want is not None:
                    raise Violation(f"{request.id} of {engine.id} waits for ever")
                self.end(engine, request, offer=False)
        self._rest(10.0)
        for engine in self.places:
            engine.check_at_rest()

    def _compute_all(self, engine: Engine) -> None:
        if any(request.want is None for request in engine.requests.values()):
            self.schedule(engine, POOL)
        while engine.steps:
            self.run(engine)

    def _rest(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self._deliver_all()
            self.advance(0.5)

    def _deliver_all(self) -> None:
        while self.network or self.flights or any(e.jobs or e.ended_jobs or e.notified for e in self.places):
            network, self.network = self.network, []
            for envelope in network:
                self.deliver(envelope)
            for engine in self.places:
                self.write_all(engine)
            for flight in list(self.flights):
                while flight.left:
                    self.land(flight, 0)
            for engine in self.places:
                self.report(engine)

    def write_all(self, engine: Engine, *, land: bool = False) -> None:
        """The workers take up all they can, and if so said bring it to its end."""
        for write in engine.postable():
            self.post(engine, write)
        for flight in [flight for flight in self.flights if land and flight.source is engine]:
            while flight.left:
                self.land(flight, 0)
