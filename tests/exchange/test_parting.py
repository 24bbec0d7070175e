# SPDX-License-Identifier: Apache-2.0
"""A peer that lives and is no peer any more: what was begun is brought to its end, and nothing new begins."""

import pytest

from tandem_connector.contract.messages import Missing, MissingReason, Offer, Purpose, Took, Want
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.exchange.commands import LoadEnded, MoveEnded, PostWrite, Send
from tandem_connector.exchange.types import EndReason, Load, OfferedRun, RequestId, Seconds
from tests.exchange.builders import PEER, Engine, names, places

WANT = Want(WantId(1), Purpose.FORWARD, names(0, 2), (50, 51), 10.0, wait=True)


def parted(engine: Engine) -> Engine:
    engine.exchange.peer_parted(PEER)
    return engine


def test_a_want_of_its_own_goes_on_to_its_end() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 2))
    parted(engine).commands()
    assert not engine.exchange.has_settled_with(PEER)
    (ended,) = engine.received(want, 0, 1).take(LoadEnded)
    assert ended.reason is EndReason.COMPLETE
    assert engine.exchange.has_settled_with(PEER)


def test_a_want_of_the_peer_that_is_served_goes_on_to_its_end() -> None:
    engine = Engine().with_peer().hears(WANT)
    parted(engine).commands()
    engine.steps(1, names(0, 2))
    (write,) = engine.writes()
    assert not engine.exchange.has_settled_with(PEER)
    engine.wrote(write)
    assert engine.exchange.has_settled_with(PEER)


def test_nothing_is_wanted_of_it() -> None:
    engine = parted(Engine().with_peer())
    blocks = engine.pool.take(1)
    assert blocks is not None
    load = Load(RequestId("r"), Purpose.FORWARD, names(0, 1), blocks, Seconds(5.0), wait=True)
    assert engine.exchange.want(PEER, load, engine.now) is None
    assert not engine.exchange.reaches(PEER)


def test_its_wants_are_refused_though_all_is_there() -> None:
    engine = parted(Engine().with_peer())
    engine.pool.cached(*names(0, 2))
    assert engine.hears(WANT).messages() == [Missing(WantId(1), None, MissingReason.REFUSED)]
    assert engine.exchange.has_settled_with(PEER)


@pytest.mark.parametrize("purpose", [Purpose.REVERSE_PUSH, Purpose.MOVE])
def test_nothing_is_taken_of_what_it_offers(purpose: Purpose) -> None:
    engine = parted(Engine().with_peer()).hears(Offer(OfferId(1), purpose, 0, names(0, 3)))
    assert engine.messages() == ([Took(OfferId(1), 3)] if purpose is Purpose.MOVE else [])


def test_nothing_is_offered_to_it_neither_what_a_request_computes_nor_what_is_to_be_moved() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(*names(0, 4))
    engine.exchange.offers_go_to(RequestId("r"), PEER)
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 4))], engine.now)
    engine.commands()
    (ended,) = parted(engine).take(MoveEnded)
    assert (ended.offered, ended.written) == (4, 0)
    engine.steps(1, names(4, 20))
    engine.exchange.request_ended(RequestId("r"), engine.now, offer=True)
    engine.exchange.offer(PEER, OfferedRun(0, names(0, 4)))
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 4))], engine.now)
    assert engine.take(Send) == []


def test_when_it_returns_all_is_as_before_and_what_was_refused_stays_over() -> None:
    engine = parted(Engine().with_peer())
    engine.pool.cached(*names(0, 2))
    engine.hears(WANT)
    engine.exchange.peer_returned(PEER)
    engine.commands()
    assert engine.hears(WANT).take(PostWrite) == []
    later = Want(WantId(2), Purpose.FORWARD, names(0, 2), (60, 61), 10.0, wait=True)
    (write,) = engine.hears(later).writes()
    assert write.destinations == places(60, 61)
    assert engine.exchange.reaches(PEER)


def test_if_it_falls_silent_its_blocks_wait_for_what_becomes_of_it() -> None:
    engine = Engine().with_peer()
    engine.wants(names(0, 2))
    parted(engine).exchange.peer_silent(PEER, engine.now)
    engine.at(1_000.0)
    assert engine.exchange.gauges().blocks_quarantined == 2
    engine.exchange.peer_gone(PEER, engine.now)
    engine.at(1_000.0)
    assert engine.exchange.gauges().blocks_quarantined == 0


def test_an_engine_that_is_not_known_has_settled() -> None:
    engine = Engine()
    engine.exchange.peer_parted(PEER)
    assert engine.exchange.has_settled_with(PEER)
