# SPDX-License-Identifier: Apache-2.0
"""Quarantine, tombstones and timers: small parts with bounds."""

import hypothesis.strategies as st
from hypothesis import given

from tandem_connector.contract.messages import Offer, Purpose
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.exchange.commands import Healthy, LoadEnded, Unhealthy
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.tombstones import Tombstones
from tandem_connector.exchange.types import EndReason, Load, RequestId, Seconds
from tests.exchange.builders import OTHER, PEER, Engine, indices, names, places


def test_too_many_blocks_in_quarantine_make_the_engine_unhealthy_until_they_are_back() -> None:
    engine = Engine(settings=ExchangeSettings(quarantine_blocks=4, transport_bound=Seconds(10.0)))
    engine.with_peer().with_peer(OTHER)
    engine.wants(names(0, 3))
    engine.wants(names(3, 5))
    engine.exchange.peer_silent(PEER, engine.now)
    (unhealthy,) = engine.take(Unhealthy)
    assert unhealthy.why.startswith("5 blocks, more than 4, can't be reused")

    load = Load(RequestId("r"), Purpose.FORWARD, names(0, 1), places(0), Seconds(1.0), wait=True)
    assert engine.exchange.want(OTHER, load, engine.now) is None
    offer = Offer(OfferId(1), Purpose.REVERSE_PUSH, 0, names(0, 1))
    assert engine.hears(offer, peer=OTHER).commands() == []
    assert engine.exchange.tally.wants_ended[Purpose.FORWARD, EndReason.REFUSED] == 1

    engine.exchange.peer_gone(PEER, engine.now)
    assert engine.take(LoadEnded) == []
    assert engine.at(10.0).take(Healthy) == [Healthy()]
    assert engine.exchange.want(OTHER, load, engine.now) is not None


def test_a_block_that_was_wanted_of_two_silent_peers_is_one_block() -> None:
    settings = ExchangeSettings(quarantine_blocks=4, exposed_blocks=6, transport_bound=Seconds(10.0))
    engine = Engine(settings=settings).with_peer().with_peer(OTHER)
    blocks = engine.pool.take(3)
    assert blocks is not None
    load = Load(RequestId("r"), Purpose.FORWARD, names(0, 3), blocks, Seconds(9.0), wait=True)
    for peer in (PEER, OTHER):
        assert engine.exchange.want(peer, load, engine.now) is not None
        engine.exchange.peer_silent(peer, engine.now)

    assert (engine.exchange.gauges().blocks_quarantined, engine.exchange.exposable()) == (3, 3)
    assert engine.take(Unhealthy) == []

    engine.exchange.peer_gone(PEER, engine.now)
    engine.at(10.0)
    assert (engine.exchange.gauges().blocks_quarantined, engine.exchange.exposable()) == (3, 3)
    engine.exchange.peer_gone(OTHER, engine.now)
    engine.at(10.0)
    assert (engine.exchange.gauges().blocks_quarantined, engine.exchange.exposable()) == (0, 6)


def test_a_buried_want_stays_covered_and_remembers_what_was_missing() -> None:
    tombstones = Tombstones(10, 100)
    tombstones.bury(WantId(4), indices(1, 2))
    assert tombstones.covers(WantId(4))
    assert not tombstones.covers(WantId(3))
    assert tombstones.missing_of(WantId(4)) == (1, 2)


def test_all_below_the_floor_is_covered_and_the_floor_never_falls() -> None:
    tombstones = Tombstones(10, 100)
    tombstones.bury(WantId(4), None)
    tombstones.raise_floor(WantId(6))
    tombstones.raise_floor(WantId(2))
    assert [tombstones.covers(WantId(want)) for want in (3, 4, 5, 6)] == [True, True, True, False]
    assert len(tombstones) == 0


@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 8))
def test_a_buried_want_is_covered_for_ever_however_few_tombstones_are_kept(wants: list[int], limit: int) -> None:
    tombstones = Tombstones(limit, limit)
    buried = set()
    for want in wants:
        tombstones.bury(WantId(want), None)
        buried.add(want)
        assert all(tombstones.covers(WantId(each)) for each in buried)
        assert len(tombstones) <= limit


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=80), st.integers(5, 20))
def test_a_buried_want_is_covered_for_ever_however_few_missing_indices_are_kept(
    wants: list[tuple[int, int]], limit: int
) -> None:
    tombstones = Tombstones(1_000, limit)
    buried = set()
    for want, missing in wants:
        tombstones.bury(WantId(want), indices(*range(missing)))
        buried.add(want)
        assert all(tombstones.covers(WantId(each)) for each in buried)
        assert sum(len(tombstones.missing_of(WantId(each)) or ()) for each in range(61)) <= limit


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20) | st.none())), st.integers(0, 20))
def test_timers_give_each_key_its_last_due_time(events: list[tuple[int, int | None]], now: int) -> None:
    timers: Timers[int] = Timers()
    expected: dict[int, Seconds] = {}
    for key, due in events:
        if due is None:
            timers.cancel(key)
            expected.pop(key, None)
        else:
            timers.set(key, Seconds(due))
            expected[key] = Seconds(due)
    assert timers.next_due() == min(expected.values(), default=None)
    popped = timers.pop_due(Seconds(now))
    assert sorted(popped) == sorted(key for key, due in expected.items() if due <= now)
    assert [expected[key] for key in popped] == sorted(expected[key] for key in popped)
    assert timers.pop_due(Seconds(now)) == []
