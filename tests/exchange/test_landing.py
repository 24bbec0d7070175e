# SPDX-License-Identifier: Apache-2.0
"""What an engine takes of what is offered to it."""

from tandem_connector.contract.messages import CancelAck, Missing, MissingReason, Offer, Purpose, Took, Want
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.exchange.commands import LandingCommitted, LandingEnded
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockHash, EndReason, RequestId, Seconds
from tests.exchange.builders import OTHER, PEER, Engine, indices, name, names, places


def offer(
    hashes: tuple[BlockHash, ...], position: int = 0, number: int = 1, purpose: Purpose = Purpose.REVERSE_PUSH
) -> Offer:
    return Offer(OfferId(number), purpose, position, hashes)


def wanted(engine: Engine) -> tuple[BlockHash, ...]:
    return tuple(
        block_hash for message in engine.messages() if isinstance(message, Want) for block_hash in message.hashes
    )


def test_only_what_is_lacking_is_wanted_without_waiting() -> None:
    engine = Engine(settings=ExchangeSettings(landing_ttl=Seconds(5.0))).with_peer()
    engine.pool.cached(name(1))
    (want,) = engine.hears(offer(names(0, 4), number=8)).messages()
    assert isinstance(want, Want)
    assert want.hashes == (name(0), name(2), name(3))
    assert (want.purpose, want.ttl, want.wait, want.offer) == (Purpose.REVERSE_PUSH, 5.0, False, 8)


def test_an_offer_of_what_is_cached_or_on_its_way_is_not_answered() -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    engine.pool.cached(name(0))
    engine.wants((name(1),))
    engine.hears(offer((name(2),)))
    engine.commands()
    assert engine.hears(offer(names(0, 3))).hears(offer(names(0, 3)), peer=OTHER).commands() == []


def test_what_is_offered_is_not_taken_into_blocks_that_the_engine_cannot_do_without() -> None:
    engine = Engine(settings=ExchangeSettings(exposed_blocks=3)).with_peer()
    engine.wants(names(0, 2))
    engine.commands()
    engine.hears(offer(names(10, 13)))
    assert wanted(engine) == (name(10),)


def test_blocks_enter_the_cache_as_they_arrive_with_their_positions() -> None:
    engine = Engine().with_peer()
    engine.hears(offer(names(10, 13), position=10)).commands()
    engine.received(WantId(1), 2)
    (committed,) = engine.take(LandingCommitted)
    assert (committed.hashes, committed.positions) == ((name(12),), (12,))
    assert engine.pool.lookup(name(12)) == committed.blocks[0]
    engine.received(WantId(1), 0, 1)
    assert engine.take(LandingEnded) == [
        LandingEnded(WantId(1), PEER, Purpose.REVERSE_PUSH, 3, 3, EndReason.COMPLETE, Seconds(0.0))
    ]
    assert engine.pool.free == 100
    assert [(block_hash, position) for block_hash, _, position in engine.pool.commits] == [
        (name(12), 12),
        (name(10), 10),
        (name(11), 11),
    ]


def test_a_block_that_was_computed_meanwhile_is_given_back() -> None:
    engine = Engine().with_peer()
    engine.hears(offer(names(0, 1))).commands()
    (own,) = engine.pool.cached(name(0))
    engine.received(WantId(1), 0)
    (committed,) = engine.take(LandingCommitted)
    assert committed.hashes == ()
    assert engine.pool.lookup(name(0)) == own
    assert engine.pool.free == 100


def test_no_more_is_taken_than_there_is_room_for_and_the_first_blocks_are_preferred() -> None:
    engine = Engine(settings=ExchangeSettings(landing_blocks=5, landing_blocks_per_peer=3))
    engine.with_peer().with_peer(OTHER)
    assert wanted(engine.hears(offer(names(0, 9)))) == names(0, 3)
    assert wanted(engine.hears(offer(names(0, 9), number=2))) == ()
    assert wanted(engine.hears(offer(names(0, 9)), peer=OTHER)) == names(3, 5)
    assert engine.exchange.gauges().blocks_landing == 5
    assert engine.exchange.tally.blocks_declined[Purpose.REVERSE_PUSH] == 6 + 6 + 4


def test_one_offer_after_another_gets_no_more_together_than_one_may() -> None:
    engine = Engine(blocks=20).with_peer().with_peer(OTHER)
    engine.pool.landing_share = 0.25
    assert wanted(engine.hears(offer(names(0, 3)))) == names(0, 3)
    assert wanted(engine.hears(offer(names(3, 9), number=2))) == names(3, 5)
    assert wanted(engine.hears(offer(names(5, 9)), peer=OTHER)) == ()
    engine.received(WantId(1), 0, 1, 2).commands()
    assert wanted(engine.hears(offer(names(5, 9), number=3))) == names(5, 8)


def test_nothing_is_taken_of_a_pool_that_needs_its_blocks() -> None:
    engine = Engine(blocks=10).with_peer()
    engine.pool.keep_free = 10
    assert engine.hears(offer(names(0, 2))).commands() == []
    engine.pool.keep_free = 9
    assert wanted(engine.hears(offer(names(0, 2)))) == names(0, 1)


def test_a_pool_that_gives_less_than_it_said_is_no_harm() -> None:
    engine = Engine(blocks=1).with_peer()
    engine.pool.keep_free = -5
    assert engine.hears(offer(names(0, 3))).commands() == []
    assert engine.pool.free == 1


def test_what_did_not_come_is_given_back_without_a_name() -> None:
    engine = Engine().with_peer()
    engine.hears(offer(names(0, 2))).commands()
    engine.received(WantId(1), 1).hears(Missing(WantId(1), indices(0), MissingReason.NOT_CACHED))
    (end,) = engine.take(LandingEnded)
    assert (end.received, end.reason) == (1, EndReason.MISSING)
    assert engine.pool.free == 100
    assert engine.pool.lookup(name(0)) is None


def test_what_arrives_after_a_reset_gets_no_name() -> None:
    engine = Engine().with_peer()
    engine.hears(offer(names(0, 2))).commands()
    engine.exchange.reset(engine.now)
    engine.received(WantId(1), 0)
    assert engine.take(LandingCommitted) == []
    assert engine.pool.lookup(name(0)) is None
    engine.hears(CancelAck(WantId(1)))
    assert engine.pool.reset()


def test_landed_blocks_are_written_to_peers_who_wait_for_them() -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    engine.exchange.request_produces(RequestId("r"), names(0, 1))
    engine.hears(Want(WantId(5), Purpose.FORWARD, names(0, 1), (9,), 10.0, wait=True), peer=OTHER)
    engine.hears(offer(names(0, 1))).commands()
    (write,) = engine.received(WantId(1), 0).writes()
    assert (write.peer, write.destinations, write.after) == (OTHER, places(9), None)


def test_a_request_can_see_how_much_of_its_prefix_is_landing() -> None:
    engine = Engine().with_peer()
    engine.hears(offer(names(0, 2)))
    assert engine.exchange.incoming_prefix(names(0, 5)) == 2
    assert engine.exchange.incoming_prefix(names(1, 5)) == 1
    engine.received(WantId(1), 0, 1)
    assert engine.exchange.incoming_prefix(names(0, 5)) == 0


def test_a_draining_engine_hears_what_was_not_taken_of_its_offer() -> None:
    engine = Engine(settings=ExchangeSettings(landing_blocks_per_peer=2)).with_peer()
    engine.pool.cached(name(0))
    want, took = engine.hears(offer(names(0, 5), purpose=Purpose.MOVE)).messages()
    assert isinstance(want, Want)
    assert want.hashes == names(1, 3)
    assert took == Took(OfferId(1), left=2)
    assert engine.hears(offer(names(0, 3), number=2, purpose=Purpose.MOVE)).messages() == [Took(OfferId(2), left=0)]


def test_an_engine_that_drains_takes_nothing_until_it_is_to_stay() -> None:
    engine = Engine().with_peer()
    engine.exchange.drain()
    assert engine.hears(offer(names(0, 2))).messages() == []
    assert engine.hears(offer(names(0, 2), purpose=Purpose.MOVE)).messages() == [Took(OfferId(1), left=2)]
    engine.exchange.stay()
    assert wanted(engine.hears(offer(names(0, 2)))) == names(0, 2)


def test_nothing_is_taken_while_stopping_or_of_a_silent_peer() -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    engine.exchange.peer_silent(OTHER, engine.now)
    assert engine.hears(offer(names(0, 1)), peer=OTHER).commands() == []
    engine.exchange.shutdown(engine.now)
    assert engine.hears(offer(names(0, 1))).commands() == []
