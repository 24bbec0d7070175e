# SPDX-License-Identifier: Apache-2.0
"""What an engine offers: a turn's blocks in batches and at its end, and its whole cache when it drains."""

from tandem_connector.contract.messages import MAX_BLOCKS, Cancel, CancelAck, Offer, Purpose, Took, Want
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.exchange.commands import MoveEnded
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import OfferedRun, RequestId, Seconds
from tests.exchange.builders import OTHER, PEER, Engine, names

R = RequestId("r")


def decoding(every: int) -> Engine:
    engine = Engine(settings=ExchangeSettings(offer_every=every)).with_peer().with_peer(OTHER)
    engine.exchange.offers_go_to(R, PEER)
    return engine


def push(number: int, position: int, start: int, stop: int) -> Offer:
    return Offer(OfferId(number), Purpose.REVERSE_PUSH, position, names(start, stop))


def test_blocks_are_offered_in_batches_and_the_rest_at_the_end() -> None:
    engine = decoding(every=3)
    engine.steps(1, names(4, 6), position=4)
    assert engine.messages() == []
    engine.steps(2, names(6, 8), position=6)
    assert engine.messages() == [push(1, 4, 4, 8)]
    engine.steps(3, names(8, 9), position=8)
    engine.exchange.request_ended(R, engine.now, offer=True)
    assert engine.messages() == [push(2, 8, 8, 9)]


def test_an_aborted_request_offers_nothing_more() -> None:
    engine = decoding(every=3)
    engine.steps(1, names(0, 2))
    engine.exchange.request_ended(R, engine.now, offer=False)
    assert engine.messages() == []


def test_without_batches_all_is_offered_at_the_end() -> None:
    engine = decoding(every=0)
    for step in range(20):
        engine.steps(step, names(step, step + 1), position=step)
    assert engine.messages() == []
    engine.exchange.request_ended(R, engine.now, offer=True)
    assert engine.messages() == [push(1, 0, 0, 20)]


def test_other_requests_are_not_offered() -> None:
    engine = decoding(every=1)
    engine.steps(1, names(0, 4), request="other")
    assert engine.messages() == []


def test_blocks_that_do_not_follow_are_offered_apart() -> None:
    engine = decoding(every=10)
    engine.steps(1, names(0, 2), position=0)
    engine.steps(2, names(5, 6), position=5)
    engine.exchange.request_ended(R, engine.now, offer=True)
    assert engine.messages() == [push(1, 0, 0, 2), push(2, 5, 5, 6)]


def test_what_was_computed_before_a_reset_is_not_offered() -> None:
    engine = decoding(every=10)
    engine.steps(1, names(0, 2), position=0)
    engine.exchange.reset(engine.now)
    engine.steps(2, names(2, 3), position=2)
    engine.exchange.request_ended(R, engine.now, offer=True)
    assert engine.messages() == [push(1, 2, 2, 3)]


def test_nothing_is_offered_to_an_ended_engine() -> None:
    engine = decoding(every=1)
    engine.exchange.peer_gone(PEER, engine.now)
    engine.steps(1, names(0, 2))
    engine.exchange.offer(PEER, OfferedRun(0, names(0, 2)))
    assert engine.messages() == []


def test_an_offer_longer_than_a_message_takes_two() -> None:
    engine = Engine().with_peer()
    engine.exchange.offer(PEER, OfferedRun(3, names(0, MAX_BLOCKS + 1)))
    first, second = engine.messages()
    assert isinstance(first, Offer)
    assert isinstance(second, Offer)
    assert (first.position, len(first.hashes)) == (3, MAX_BLOCKS)
    assert (second.position, second.hashes) == (3 + MAX_BLOCKS, names(MAX_BLOCKS, MAX_BLOCKS + 1))


# -- move -----------------------------------------------------------------------------------------------------------


def draining(peer_blocks: int = 1_000) -> Engine:
    """With ten blocks in its cache."""
    engine = Engine(settings=ExchangeSettings(move_batch=3, offer_patience=Seconds(2.0), move_attempts=2))
    engine.pool.cached(*names(0, 10))
    return engine.with_peer(blocks=peer_blocks)


def move(number: int, position: int, start: int, stop: int) -> Offer:
    return Offer(OfferId(number), Purpose.MOVE, position, names(start, stop))


def answer(offer: int, start: int, stop: int) -> Want:
    hashes = names(start, stop)
    return Want(WantId(offer), Purpose.MOVE, hashes, tuple(range(len(hashes))), 5.0, wait=False, offer=OfferId(offer))


def test_a_move_offers_the_next_batch_when_the_last_is_written() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 5))], engine.now)
    assert engine.messages() == [move(1, 0, 0, 3)]
    (write,) = engine.hears(answer(1, 0, 3)).writes()
    assert engine.at(2.0).messages() == []
    assert engine.wrote(write).messages() == [move(2, 3, 3, 5)]
    (write,) = engine.hears(answer(2, 3, 5)).writes()
    assert engine.wrote(write).take(MoveEnded) == [MoveEnded(PEER, offered=5, written=5)]


def test_a_move_goes_on_at_once_when_nothing_of_a_batch_is_lacking() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 3)), OfferedRun(7, names(7, 8))], engine.now)
    engine.messages()
    assert engine.hears(Took(OfferId(1), left=0)).messages() == [move(2, 7, 7, 8)]
    assert engine.hears(Took(OfferId(2), left=0)).take(MoveEnded) == [MoveEnded(PEER, offered=4, written=0)]


def test_what_the_successor_had_no_room_for_is_offered_again_when_the_rest_is_written() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 5))], engine.now)
    engine.commands()
    (write,) = engine.hears(answer(1, 0, 2)).hears(Took(OfferId(1), left=1)).writes()
    assert engine.wrote(write).messages() == [move(2, 0, 0, 3)]
    (write,) = engine.hears(answer(2, 2, 3)).hears(Took(OfferId(2), left=0)).writes()
    assert engine.wrote(write).messages() == [move(3, 3, 3, 5)]


def test_a_move_waits_for_room_and_ends_when_there_is_none_again_and_again() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 5))], engine.now)
    engine.commands()
    assert engine.hears(Took(OfferId(1), left=3)).commands() == []
    assert engine.at(1.9).commands() == []
    assert engine.at(0.1).messages() == [move(2, 0, 0, 3)]
    assert engine.hears(Took(OfferId(2), left=3)).commands() == [MoveEnded(PEER, offered=0, written=0)]


def test_several_short_runs_are_on_offer_at_one_time() -> None:
    engine = draining()
    runs = [OfferedRun(position, names(position, position + 1)) for position in (0, 2, 4, 6)]
    engine.exchange.move(PEER, runs, engine.now)
    assert engine.messages() == [move(1, 0, 0, 1), move(2, 2, 2, 3), move(3, 4, 4, 5)]
    assert engine.hears(Took(OfferId(2), left=0)).messages() == [move(4, 6, 6, 7)]


def test_what_has_left_the_cache_is_not_offered() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(8, names(8, 13)), OfferedRun(0, names(20, 22))], engine.now)
    assert engine.messages() == [move(1, 8, 8, 10)]


def test_a_move_fills_no_more_than_a_part_of_the_successors_pool() -> None:
    engine = draining(peer_blocks=6)
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 10))], engine.now)
    engine.commands()
    (write,) = engine.hears(answer(1, 0, 3)).writes()
    assert engine.wrote(write).take(MoveEnded) == [MoveEnded(PEER, offered=3, written=3)]


def test_an_offer_that_is_not_answered_is_made_again_and_no_more_when_that_was_in_vain_too() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 3)), OfferedRun(7, names(7, 8))], engine.now)
    engine.messages()
    assert engine.at(1.9).messages() == []
    assert engine.at(0.1).messages() == []
    assert engine.at(2.0).messages() == [move(2, 0, 0, 3)]
    assert engine.at(2.0).take(MoveEnded) == [MoveEnded(PEER, offered=0, written=0)]


def test_an_offer_that_is_answered_the_second_time_is_moved_and_so_is_what_follows() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 3)), OfferedRun(7, names(7, 8))], engine.now)
    engine.at(2.0).at(2.0).commands()
    (write,) = engine.hears(answer(2, 0, 3)).writes()
    assert engine.wrote(write).messages() == [move(3, 7, 7, 8)]
    assert engine.hears(Took(OfferId(3), left=0)).take(MoveEnded) == [MoveEnded(PEER, offered=4, written=3)]


def test_offers_that_were_made_at_one_time_are_in_vain_once_and_all_are_made_again() -> None:
    engine = draining()
    runs = [OfferedRun(position, names(position, position + 1)) for position in (0, 2, 4)]
    engine.exchange.move(PEER, runs, engine.now)
    engine.at(2.0).commands()
    assert {offer.position for offer in engine.at(2.0).messages() if isinstance(offer, Offer)} == {0, 2, 4}


def test_of_what_is_not_written_in_its_time_half_as_much_is_offered_at_one_time() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 4))], engine.now)
    engine.commands()
    (slow,) = engine.hears(answer(1, 0, 3)).hears(Took(OfferId(1), left=0)).writes()
    assert engine.at(5.0).hears(Cancel(WantId(1))).messages() == []
    assert engine.wrote(slow).messages() == [CancelAck(WantId(1))]
    assert engine.at(2.0).messages() == [move(2, 0, 0, 1)]
    assert engine.hears(Took(OfferId(2), left=0)).messages() == [move(3, 1, 1, 2)]
    assert engine.hears(Took(OfferId(3), left=0)).messages() == [move(4, 2, 2, 3)]


def test_what_was_written_so_late_that_it_may_have_been_given_up_is_offered_again() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 2))], engine.now)
    engine.commands()
    (slow,) = engine.hears(answer(1, 0, 2)).hears(Took(OfferId(1), left=0)).writes()
    assert engine.at(2.3).wrote(slow).take(MoveEnded) == []
    assert engine.at(2.0).messages() == [move(2, 0, 0, 1)]


def test_what_could_not_be_written_is_offered_again_and_not_for_ever() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 2))], engine.now)
    engine.commands()
    (write,) = engine.hears(answer(1, 0, 2)).hears(Took(OfferId(1), left=0)).writes()
    assert engine.wrote(write, written=False).take(MoveEnded) == []
    assert engine.at(2.0).messages() == [move(2, 0, 0, 1)]
    (write,) = engine.hears(answer(2, 0, 1)).hears(Took(OfferId(2), left=0)).writes()
    assert engine.wrote(write, written=False).take(MoveEnded) == [MoveEnded(PEER, offered=0, written=0)]


def test_a_want_that_comes_when_its_offer_was_made_again_is_seen_to_its_end() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 2))], engine.now)
    engine.at(2.0).at(2.0).commands()
    (write,) = engine.hears(answer(1, 0, 2)).hears(Took(OfferId(1), left=0)).writes()
    assert engine.hears(Took(OfferId(2), left=0)).commands() == []
    engine.wrote(write, written=False).commands()
    assert engine.at(2.0).messages() == [move(3, 0, 0, 1)]


def test_a_move_that_is_asked_for_again_is_one_move() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 3))], engine.now)
    engine.exchange.move(PEER, [OfferedRun(3, names(3, 4))], engine.now)
    assert engine.messages() == [move(1, 0, 0, 3)]
    assert engine.hears(Took(OfferId(1), left=0)).messages() == [move(2, 3, 3, 4)]


def test_a_move_ends_with_its_successor() -> None:
    for lost in ("peer_silent", "peer_gone"):
        engine = draining()
        engine.exchange.move(PEER, [OfferedRun(0, names(0, 9))], engine.now)
        engine.commands()
        getattr(engine.exchange, lost)(PEER, engine.now)
        assert engine.take(MoveEnded) == [MoveEnded(PEER, offered=3, written=0)]
        assert engine.at(10.0).commands() == []


def test_a_move_to_an_engine_that_does_not_answer_ends_at_once() -> None:
    engine = draining()
    engine.exchange.move(OTHER, [OfferedRun(0, names(0, 1))], engine.now)
    assert engine.take(MoveEnded) == [MoveEnded(OTHER, offered=0, written=0)]


def test_a_move_of_nothing_ends_at_once() -> None:
    engine = draining()
    engine.exchange.move(PEER, [], engine.now)
    assert engine.commands() == [MoveEnded(PEER, offered=0, written=0)]


def test_an_acknowledgement_from_nowhere_changes_no_move() -> None:
    engine = draining()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 1))], engine.now)
    engine.commands()
    assert engine.hears(CancelAck(WantId(1))).hears(Took(OfferId(9), left=1)).commands() == []
    assert engine.hears(Took(OfferId(1), left=0), peer=OTHER).commands() == []


def test_an_engine_that_stays_after_all_moves_no_more() -> None:
    engine = draining()
    engine.exchange.drain()
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 9))], engine.now)
    engine.commands()
    engine.exchange.stay()
    assert engine.commands() == [MoveEnded(PEER, offered=3, written=0)]
    assert engine.at(10.0).commands() == []


def test_it_is_at_rest_when_nothing_is_moved_and_nobody_waits() -> None:
    engine = draining()
    assert engine.exchange.at_rest
    engine.exchange.move(PEER, [OfferedRun(0, names(0, 2))], engine.now)
    (write,) = engine.hears(answer(1, 0, 2)).writes()
    assert not engine.exchange.at_rest
    engine.wrote(write)
    assert engine.exchange.at_rest
    want = engine.wants(names(20, 21))
    assert not engine.exchange.at_rest
    engine.received(want, 0)
    assert engine.exchange.at_rest
