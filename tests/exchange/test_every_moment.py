# SPDX-License-Identifier: Apache-2.0
"""Two turns between prefill and decode, gone through again and again with one fault at each moment in turn.

The walk of `test_model.py` comes to what nobody thought of. This one leaves no moment out: before, between and after any two
messages, writes, landed blocks and steps of the forward want, the reverse push and the reverse fetch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from e2e.exchange.unsafe import ExchangeWithoutQuarantine
from tandem_connector.contract.types import EngineId
from tandem_connector.exchange.exchange import Exchange
from tests.exchange.builders import names
from tests.exchange.toy_engine import SETTINGS, TTL, Engine
from tests.exchange.toy_pool import ToyPool, Violation
from tests.exchange.world import World

PREFILL, DECODE = 0, 1
AFTER_THE_TTL = TTL + 1.0
Event: TypeAlias = Callable[[], None]
Make: TypeAlias = Callable[[EngineId, ToyPool], Exchange]


def safe(engine: EngineId, pool: ToyPool) -> Exchange:
    return Exchange(engine, pool, SETTINGS)


def unsafe(engine: EngineId, pool: ToyPool) -> Exchange:
    return ExchangeWithoutQuarantine(engine, pool, SETTINGS)


@dataclass
class Story:
    """The two turns, one event after the other."""

    world: World
    turns: int = 0
    events: int = 0

    def following(self) -> Event | None:
        """What happens next: one thing; None at the end."""
        self.events += 1
        if self.events % 12 == 0:
            return lambda: self.world.advance(0.5)
        event = next(self._possible(), None)
        if event is None and self.turns < 2:
            self.turns += 1
            return self.first_turn if self.turns == 1 else self.second_turn
        return event

    def _possible(self) -> Iterator[Event]:
        world = self.world
        for engine in world.places:
            if engine.ended_jobs or engine.notified:
                yield lambda engine=engine: world.report(engine)  # type: ignore[misc]
        if world.network:
            yield self.deliver
        for engine in world.places:
            for write in engine.postable():
                yield lambda engine=engine, write=write: world.post(engine, write)  # type: ignore[misc]
        for flight in world.flights:
            yield lambda flight=flight: world.land(flight, 0)  # type: ignore[misc]
        for engine in world.places:
            yield from self._computing(engine)

    def _computing(self, engine: Engine) -> Iterator[Event]:
        world = self.world
        if engine.steps:
            yield lambda: world.run(engine)
        running = [request for request in engine.requests.values() if request.want is None]
        if any(request.computed < len(request.blocks) for request in running):
            yield lambda: world.schedule(engine, 2)
        for request in running:
            yield lambda request=request: world.end(engine, request, offer=True)  # type: ignore[misc]

    def deliver(self) -> None:
        self.world.deliver(self.world.network.pop(0))

    def first_turn(self) -> None:
        """Decode waits for what prefill computes, then computes more, and offers it."""
        prefill, decode = self.world.places
        self.world.begin(prefill, names(0, 4), None, wait=False)
        request = self.world.begin(decode, names(0, 4), prefill, wait=True)
        mine = self.world.begin(decode, names(0, 3, "b"), None, wait=False)
        for each in (request, mine):
            if each is not None:
                decode.exchange.offers_go_to(each.id, prefill.id)

    def second_turn(self) -> None:
        """Prefill has lost what it had, and fetches it."""
        prefill, decode = self.world.places
        prefill.pool.churn()
        self.world.begin(prefill, names(0, 6, "b"), decode, wait=False)
        self.world.begin(decode, names(0, 6, "b"), prefill, wait=True)


def crash(story: Story, who: int) -> None:
    """Another process is there at once; that the pod is gone is told much later."""
    story.world.crash(who)


def crash_that_is_known(story: Story, who: int) -> None:
    dead = story.world.places[who]
    story.world.crash(who)
    story.world.declare(dead)


def freeze_beyond_the_ttl(story: Story, who: int) -> None:
    """All that the other can reuse is reused, before the frozen one goes on with what it had begun."""
    world = story.world
    frozen, other = world.places[who], world.places[1 - who]
    world.freeze(frozen)
    for _ in range(12):
        world.advance(AFTER_THE_TTL / 12)
    for request in list(other.requests.values()):
        if request.want is None and not request.in_flight:
            world.end(other, request, offer=False)
    other.pool.churn()
    world.begin(other, names(0, 9, "c"), None, wait=False)
    while any(request.computed < len(request.blocks) for request in other.requests.values() if request.want is None):
        world.schedule(other, 9)
        world.run(other)
    world.thaw(frozen)


def lose_the_message(story: Story, who: int) -> None:
    if story.world.network:
        story.world.network.pop(0)


def repeat_the_message(story: Story, who: int) -> None:
    if story.world.network:
        story.world.network.append(story.world.network[0])


def delay_the_message(story: Story, who: int) -> None:
    if story.world.network:
        story.world.network.append(story.world.network.pop(0))


def break_the_connection(story: Story, who: int) -> None:
    for flight in story.world.flights:
        if flight.source is story.world.places[who]:
            story.world.tear(flight)


def abort(story: Story, who: int) -> None:
    engine = story.world.places[who]
    for request in list(engine.requests.values()):
        story.world.end(engine, request, offer=False)


def preempt(story: Story, who: int) -> None:
    engine = story.world.places[who]
    for request in list(engine.requests.values()):
        if request.want is None and not request.in_flight:
            story.world.preempt(engine, request)


def reset(story: Story, who: int) -> None:
    story.world.reset(story.world.places[who])


def let_time_pass(story: Story, who: int) -> None:
    story.world.pass_time(AFTER_THE_TTL)


OF_AN_ENGINE = (crash, crash_that_is_known, freeze_beyond_the_ttl, break_the_connection, abort, preempt, reset)
OF_NOBODY = (lose_the_message, repeat_the_message, delay_the_message, let_time_pass)
FAULTS = [
    *((fault, who) for fault in OF_AN_ENGINE for who in (PREFILL, DECODE)),
    *((fault, PREFILL) for fault in OF_NOBODY),
]


def moments(make: Make, fault: Callable[[Story, int], None], who: int) -> Iterator[int]:
    """Go through the story with the fault at one moment after the other; yields each moment when all that must hold has held."""
    moment = 0
    while True:
        story = Story(World(2, make))
        at = 0
        while (event := story.following()) is not None:
            if at == moment:
                fault(story, who)
                story.world.check()
                event = story.following()
                if event is None:
                    break
            event()
            story.world.check()
            at += 1
        story.world.settle()
        story.world.check()
        yield moment
        if moment > at:
            return
        moment += 1


@pytest.mark.parametrize(
    ("fault", "who"), FAULTS, ids=[f"{fault.__name__}-{('prefill', 'decode')[who]}" for fault, who in FAULTS]
)
def test_one_fault_at_any_moment_leaves_no_wrong_content_and_nothing_held(
    fault: Callable[[Story, int], None], who: int
) -> None:
    assert len(list(moments(safe, fault, who))) > 50


def test_without_the_quarantine_a_freeze_at_some_moment_lets_a_write_land_in_a_foreign_block() -> None:
    with pytest.raises(Violation, match="a write lands in block"):
        list(moments(unsafe, freeze_beyond_the_ttl, PREFILL))
