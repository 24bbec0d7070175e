# SPDX-License-Identifier: Apache-2.0
"""What block names are derived from, on its way to an engine that publishes KV events, and to no other."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.contract.messages import MAX_DERIVED, Derivations, Offer, Purpose, Took
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.exchange.commands import DropPeer, LandingCommitted, MoveEnded
from tandem_connector.exchange.derivations import derivation_of, derivations_flaw, joined
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import OfferedRun, RequestId
from tests.exchange.builders import PEER, Engine, name, names
from tests.exchange.toy_pool import BLOCK_SIZE, derived

SETTINGS = ExchangeSettings(block_size=BLOCK_SIZE, offer_every=2)
R = RequestId("r")


def run(start: int, stop: int) -> OfferedRun:
    return OfferedRun(start, names(start, stop))


def offered(start: int, stop: int) -> Offer:
    part = run(start, stop)
    derivations = joined(part, [derived(each) for each in part.hashes])
    return Offer(OfferId(1), Purpose.REVERSE_PUSH, start, part.hashes, derivations)


def offers(engine: Engine) -> list[Offer]:
    return [message for message in engine.messages() if isinstance(message, Offer)]


@pytest.mark.parametrize("publishes", [True, False])
def test_what_is_computed_is_offered_with_derivations_to_who_publishes_only(publishes: bool) -> None:
    engine = Engine(settings=SETTINGS).with_peer(publishes=publishes)
    engine.exchange.offers_go_to(R, PEER)
    engine.steps(1, names(3, 5), request=R, position=3)
    (offer,) = offers(engine)
    assert offer.derivations == (Derivations(name(2), (3, 97, 4, 97), (b"", b"")) if publishes else None)


def test_the_first_block_of_a_sequence_has_no_parent() -> None:
    engine = Engine(settings=SETTINGS).with_peer(publishes=True)
    engine.exchange.offer(PEER, run(0, 1))
    (offer,) = offers(engine)
    assert offer.derivations == Derivations(None, (0, 97), (b"a",))


def test_a_move_says_what_its_blocks_are_derived_from() -> None:
    engine = Engine(settings=SETTINGS).with_peer(publishes=True)
    engine.pool.cached(*names(2, 4))
    engine.exchange.move(PEER, [run(2, 4)], engine.now)
    (offer,) = offers(engine)
    assert offer == Offer(OfferId(1), Purpose.MOVE, 2, names(2, 4), Derivations(name(1), (2, 97, 3, 97), (b"", b"")))


def test_a_move_to_who_publishes_waits_for_the_answers_to_all_its_messages() -> None:
    engine = Engine(blocks=2 * MAX_DERIVED, settings=replace(SETTINGS, move_batch=2 * MAX_DERIVED))
    engine.with_peer(publishes=True, blocks=10 * MAX_DERIVED)
    engine.pool.cached(*names(0, MAX_DERIVED + 1))
    engine.exchange.move(PEER, [run(0, MAX_DERIVED + 1)], engine.now)
    assert [len(offer.hashes) for offer in offers(engine)] == [MAX_DERIVED, 1]
    assert engine.hears(Took(OfferId(2), left=0)).take(MoveEnded) == []
    assert engine.hears(Took(OfferId(1), left=0)).take(MoveEnded) == [MoveEnded(PEER, MAX_DERIVED + 1, 0)]


def test_nothing_is_said_of_blocks_that_do_not_follow_each_other() -> None:
    engine = Engine(settings=SETTINGS).with_peer(publishes=True)
    engine.exchange.offer(PEER, OfferedRun(0, (name(0), name(2))))
    engine.exchange.offer(PEER, OfferedRun(0, (name(1),)))
    assert [offer.derivations for offer in offers(engine)] == [None, None]


def test_nothing_is_said_of_blocks_whose_origin_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(settings=SETTINGS).with_peer(publishes=True)
    monkeypatch.setattr(engine.pool, "derivations", lambda hashes: None)
    engine.exchange.offer(PEER, run(0, 2))
    assert [offer.derivations for offer in offers(engine)] == [None]


def test_an_offer_to_who_publishes_takes_more_messages() -> None:
    engine = Engine(settings=SETTINGS).with_peer(publishes=True)
    engine.exchange.offer(PEER, run(0, MAX_DERIVED + 1))
    first, second = offers(engine)
    assert second == Offer(
        OfferId(2), Purpose.REVERSE_PUSH, MAX_DERIVED, names(MAX_DERIVED, MAX_DERIVED + 1), second.derivations
    )
    assert first.derivations is not None
    assert second.derivations is not None
    assert second.derivations.parent == first.hashes[-1]


def test_what_lands_is_named_with_what_the_peer_said_parents_first() -> None:
    engine = Engine(settings=SETTINGS).with_peer()
    engine.pool.publishes = True
    engine.pool.cached(name(4))
    engine.hears(offered(3, 7)).commands()
    engine.received(WantId(1), 2, 0, 1)
    assert engine.pool.published == [(each, derived(each)) for each in (name(3), name(5), name(6))]


def test_a_block_of_which_nothing_is_said_lands_all_the_same() -> None:
    engine = Engine(settings=SETTINGS).with_peer()
    engine.pool.publishes = True
    engine.hears(Offer(OfferId(1), Purpose.REVERSE_PUSH, 0, names(0, 1))).commands()
    engine.received(WantId(1), 0)
    (landed,) = engine.take(LandingCommitted)
    assert landed.hashes == names(0, 1)
    assert engine.pool.published == []


def test_a_peer_that_sends_too_few_tokens_is_dropped() -> None:
    engine = Engine(settings=SETTINGS).with_peer()
    engine.hears(Offer(OfferId(5), Purpose.MOVE, 0, names(0, 2), Derivations(None, (1, 2, 3), (b"", b""))))
    assert engine.commands() == [DropPeer(PEER, "offer 5: 3 tokens in 2 blocks of 2")]
    assert engine.pool.free == 100


@given(st.integers(0, 50), st.integers(1, 20))
def test_what_is_joined_can_be_taken_apart_again(start: int, count: int) -> None:
    offer = offered(start, start + count)
    assert derivations_flaw(offer, BLOCK_SIZE) is None
    assert [derivation_of(offer, index, BLOCK_SIZE) for index in range(count)] == [
        derived(each) for each in offer.hashes
    ]
