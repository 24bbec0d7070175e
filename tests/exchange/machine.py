# SPDX-License-Identifier: Apache-2.0
"""Everything that may happen between some engines, for hypothesis to choose from."""

from typing import ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tandem_connector.contract.types import EngineId
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import OfferedRun
from tests.exchange.builders import names
from tests.exchange.toy_engine import SETTINGS, Engine
from tests.exchange.toy_pool import ToyPool
from tests.exchange.world import World

chains = st.sampled_from("ab")
lengths = st.integers(1, 8)
any_number = st.integers(0, 1_000)
rarely = st.integers(0, 5).map(lambda number: number == 5)


class ExchangeMachine(RuleBasedStateMachine):
    """2 to 4 engines over a network that loses, repeats, reorders and delays."""

    exchange_type: ClassVar[type[Exchange]] = Exchange

    def make(self, engine: EngineId, pool: ToyPool) -> Exchange:
        return self.exchange_type(engine, pool, SETTINGS)

    @initialize(size=st.integers(2, 4))
    def begin(self, size: int) -> None:
        self.world = World(size, self.make)

    def engine(self, number: int) -> Engine | None:
        running = [engine for engine in self.world.places if not engine.frozen]
        return running[number % len(running)] if running else None

    # -- requests ---------------------------------------------------------------------------------------------------

    @rule(number=any_number, holder=any_number, chain=chains, length=lengths, wait=st.booleans(), offers=st.booleans())
    def ask(self, number: int, holder: int, chain: str, length: int, *, wait: bool, offers: bool) -> None:
        engine = self.engine(number)
        others = [other for other in self.world.places if other is not engine]
        if engine is not None:
            peer = others[holder % len(others)]
            request = self.world.begin(engine, names(0, length, chain), peer, wait=wait)
            if offers and request is not None:
                engine.exchange.offers_go_to(request.id, peer.id)

    @rule(number=any_number, back=any_number, chain=chains, length=lengths, offers=st.booleans())
    def compute(self, number: int, back: int, chain: str, length: int, *, offers: bool) -> None:
        engine = self.engine(number)
        others = [other for other in self.world.places if other is not engine]
        if engine is not None:
            request = self.world.begin(engine, names(0, length, chain), None, wait=False)
            if offers and request is not None:
                engine.exchange.offers_go_to(request.id, others[back % len(others)].id)

    @rule(number=any_number, most=st.integers(1, 5))
    def schedule(self, number: int, most: int) -> None:
        engine = self.engine(number)
        if engine is not None and len(engine.steps) < 2:
            self.world.schedule(engine, most)

    @rule(number=any_number)
    def run(self, number: int) -> None:
        engine = self.engine(number)
        if engine is not None and engine.steps:
            self.world.run(engine)

    @rule(number=any_number, which=any_number)
    def finish(self, number: int, which: int) -> None:
        engine = self.engine(number)
        if engine is not None:
            done = [r for r in engine.requests.values() if r.computed == len(r.blocks) and r.want is None]
            if done:
                self.world.end(engine, done[which % len(done)], offer=True)

    @rule(number=any_number, which=any_number)
    def abort(self, number: int, which: int) -> None:
        engine = self.engine(number)
        if engine is not None and engine.requests:
            requests = list(engine.requests.values())
            self.world.end(engine, requests[which % len(requests)], offer=False)

    @rule(number=any_number, which=any_number, sure=rarely)
    def preempt(self, number: int, which: int, *, sure: bool) -> None:
        engine = self.engine(number)
        if engine is not None and sure:
            running = [r for r in engine.requests.values() if r.want is None and not r.in_flight]
            if running:
                self.world.preempt(engine, running[which % len(running)])

    @rule()
    def churn(self) -> None:
        for engine in self.world.places:
            engine.pool.churn()

    @rule(number=any_number, sure=rarely)
    def reset(self, number: int, *, sure: bool) -> None:
        engine = self.engine(number)
        if engine is not None and sure:
            self.world.reset(engine)

    @rule(number=any_number, to=any_number, chain=chains)
    def move(self, number: int, to: int, chain: str) -> None:
        engine = self.engine(number)
        others = [other for other in self.world.places if other is not engine]
        if engine is not None:
            cached = tuple(block_hash for block_hash in names(0, 8, chain) if block_hash in engine.pool.names)
            if cached:
                engine.exchange.move(others[to % len(others)].id, [OfferedRun(0, cached)], self.world.now)
                self.world.act(engine)

    @rule(number=any_number, ends=rarely)
    def drain(self, number: int, *, ends: bool) -> None:
        engine = self.engine(number)
        if engine is not None:
            if ends:
                engine.exchange.drain()
            else:
                engine.exchange.stay()
            self.world.act(engine)

    @rule(number=any_number, sure=rarely)
    def shut_down(self, number: int, *, sure: bool) -> None:
        """The engine ends in order; its process is gone, and another in its place, only when nothing is held any more."""
        engine = self.engine(number)
        if engine is not None and sure:
            self.world.shut_down(engine)

    # -- network ----------------------------------------------------------------------------------------------------

    @rule(which=any_number, data=st.sampled_from(["deliver", "deliver", "deliver", "repeat", "lose"]))
    @precondition(lambda self: self.world.network)
    def message(self, which: int, data: str) -> None:
        network = self.world.network
        envelope = network[which % len(network)]
        if data != "repeat":
            network.remove(envelope)
        if data != "lose":
            self.world.deliver(envelope)

    @rule()
    def all_messages(self) -> None:
        network, self.world.network = self.world.network, []
        for envelope in network:
            self.world.deliver(envelope)

    @rule(which=any_number)
    @precondition(lambda self: self.world.old_wants)
    def want_again(self, which: int) -> None:
        """A message that arrived, or was lost, long ago arrives now."""
        self.world.deliver(self.world.old_wants[which % len(self.world.old_wants)])

    @rule(number=any_number, most=st.integers(1, 5), hasty=st.booleans(), fast=st.booleans())
    def work(self, number: int, most: int, *, hasty: bool, fast: bool) -> None:
        """A step from end to end, with its messages; what can be written before its forward pass is, if hasty."""
        engine = self.engine(number)
        if engine is not None:
            self.all_messages()
            if len(engine.steps) < 2:
                self.world.schedule(engine, most)
            if hasty:
                self.world.write_all(engine, land=True)
            self.world.run(engine)
            self.world.write_all(engine, land=fast)
            self.world.report(engine)

    @rule(number=any_number, holder=any_number, chain=chains, length=lengths)
    def turn(self, number: int, holder: int, chain: str, length: int) -> None:
        """Two engines begin one turn: one computes what the other waits for."""
        engine = self.engine(number)
        if engine is not None:
            others = [other for other in self.world.places if other is not engine and not other.frozen]
            if others:
                peer = others[holder % len(others)]
                self.world.begin(engine, names(0, length, chain), peer, wait=True)
                self.world.begin(peer, names(0, length, chain), None, wait=False)

    @rule(number=any_number)
    def write_under_pressure(self, number: int) -> None:
        """All that is not referenced gets other content between the beginning and the end of a write."""
        engine = self.engine(number)
        if engine is not None:
            self.all_messages()
            self.world.write_all(engine)
            self.churn()
            self.world.write_all(engine, land=True)

    @rule(number=any_number, which=any_number, fail=rarely, late=st.booleans())
    def post(self, number: int, which: int, *, fail: bool, late: bool) -> None:
        engine = self.engine(number)
        writes = engine.postable() if engine is not None else []
        if engine is not None and writes:
            self.world.post(engine, writes[which % len(writes)], fail=fail, ignore_deadline=late)

    @rule(which=any_number, block=any_number, how=st.sampled_from(["one", "all", "all", "tear"]))
    @precondition(lambda self: self.world.flights)
    def land(self, which: int, block: int, how: str) -> None:
        flight = self.world.flights[which % len(self.world.flights)]
        match how:
            case "one":
                self.world.land(flight, block)
            case "all":
                while flight.left:
                    self.world.land(flight, 0)
            case _:
                self.world.tear(flight)

    @rule(number=any_number)
    def report(self, number: int) -> None:
        engine = self.engine(number)
        if engine is not None:
            self.world.report(engine)

    # -- time and faults --------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 2.5, 6.0]), cut=rarely)
    def wait(self, seconds: float, *, cut: bool) -> None:
        """Time passes; pings arrive, unless the network is cut, and other messages stay where they are."""
        if cut:
            self.world.advance(seconds)
        else:
            self.world.pass_time(seconds)

    @rule(number=any_number, sure=rarely)
    def freeze(self, number: int, *, sure: bool) -> None:
        engine = self.engine(number)
        if engine is not None and sure:
            self.world.freeze(engine)

    @rule(which=any_number)
    @precondition(lambda self: any(engine.frozen for engine in self.world.places))
    def thaw(self, which: int) -> None:
        frozen = [engine for engine in self.world.places if engine.frozen]
        self.world.thaw(frozen[which % len(frozen)])

    @rule(number=any_number, sure=rarely)
    def crash(self, number: int, *, sure: bool) -> None:
        if sure:
            self.world.crash(number % len(self.world.places))

    @rule(which=any_number, sure=rarely)
    @precondition(lambda self: self.world.flights)
    def crash_while_writing(self, which: int, *, sure: bool) -> None:
        source = self.world.flights[which % len(self.world.flights)].source
        if sure and source.alive:
            self.world.crash(self.world.places.index(source))
            self.world.declare(source)

    @rule(which=any_number)
    @precondition(lambda self: self.world.undeclared)
    def declare(self, which: int) -> None:
        self.world.declare(self.world.undeclared[which % len(self.world.undeclared)])

    # -- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_broken(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()
            self.world.check()


class PartingMachine(ExchangeMachine):
    """Pairs change as well. Apart, because fewer wants are served then, and the controls find what they look for too seldom."""

    @rule(number=any_number, other=any_number, sure=rarely)
    def part(self, number: int, other: int, *, sure: bool) -> None:
        """One of two hears that they are peers no more."""
        engine = self.engine(number)
        if engine is not None and sure:
            others = [place for place in self.world.places if place is not engine]
            self.world.part(engine, others[other % len(others)])

    @rule(which=any_number)
    @precondition(lambda self: any(engine.parted for engine in self.world.places))
    def join_again(self, which: int) -> None:
        pairs = [
            (engine, other)
            for engine in self.world.places
            for other in self.world.places
            if other.id in engine.parted and not engine.frozen
        ]
        if pairs:
            self.world.join_again(*pairs[which % len(pairs)])
