# SPDX-License-Identifier: Apache-2.0
"""Peers' wants: what is written when, and what is said of the rest."""

from tandem_connector.contract.messages import (
    Cancel,
    CancelAck,
    Gone,
    Have,
    Missing,
    MissingReason,
    Ping,
    Purpose,
    Query,
    Want,
)
from tandem_connector.contract.types import EngineId, QueryId, WantId
from tandem_connector.exchange.commands import DropPeer, PostWrite, Send, ServingEnded, WithdrawWrites
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockHash, RequestId, Seconds, StepId
from tests.exchange.builders import ME, OTHER, PEER, PEER_BLOCKS, Engine, indices, name, names, places


def want(
    hashes: tuple[BlockHash, ...], *, number: int = 1, first: int = 50, wait: bool = True, ttl: float = 10.0
) -> Want:
    """A peer's want, into its blocks from `first` on."""
    destinations = tuple(range(first, first + len(hashes)))
    return Want(WantId(number), Purpose.FORWARD, hashes, destinations, ttl, wait)


def test_what_is_cached_is_written_at_once_and_pinned_until_it_is_written() -> None:
    engine = Engine(settings=ExchangeSettings(post_margin=0.1)).with_peer()
    engine.pool.cached(*names(0, 2))
    (write,) = engine.hears(want(names(0, 2))).writes()
    assert (write.peer, write.sources, write.destinations) == (PEER, places(0, 1), places(50, 51))
    assert (write.deadline, write.after) == (engine.now + 9.0, None)
    assert engine.pool.free == 98
    assert engine.wrote(write).take(ServingEnded) == [ServingEnded(WantId(1), PEER, Purpose.FORWARD, 2, 0)]
    assert engine.pool.free == 100


def test_a_want_that_does_not_wait_hears_at_once_what_is_not_cached() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(1))
    assert engine.hears(want(names(0, 3), wait=False)).messages() == [
        Missing(WantId(1), indices(0, 2), MissingReason.NOT_CACHED)
    ]


def test_what_a_step_fills_is_written_after_that_step() -> None:
    engine = Engine().with_peer()
    engine.exchange.request_produces(RequestId("r"), names(0, 3))
    engine.hears(want(names(0, 3)))
    engine.steps(7, names(0, 2))
    (write,) = engine.writes()
    assert (write.indices, write.after) == (indices(0, 1), StepId(7))
    engine.steps(8, names(2, 3))
    (write,) = engine.writes()
    assert (write.indices, write.after) == (indices(2), StepId(8))


def test_a_want_that_comes_while_steps_are_in_flight_is_written_after_each_of_them() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    engine.steps(3, names(1, 2))
    engine.steps(4, names(2, 4))
    writes = engine.hears(want(names(0, 4))).writes()
    assert [(write.indices, write.after) for write in writes] == [
        (indices(0), None),
        (indices(1), StepId(3)),
        (indices(2, 3), StepId(4)),
    ]


def test_what_a_finished_step_filled_is_valid() -> None:
    engine = Engine().with_peer()
    engine.steps(3, names(0, 1))
    engine.steps(4, names(1, 2))
    engine.exchange.step_finished(StepId(4))
    (write,) = engine.hears(want(names(0, 2))).writes()
    assert write.after is None


def test_a_block_that_a_later_step_fills_again_is_valid_only_after_that_step() -> None:
    engine = Engine().with_peer()
    fresh = engine.steps(3, names(0, 1))
    engine.pool.unpin(fresh.blocks)
    engine.pool.forget(fresh.blocks[0])
    engine.pool.churn()
    again = engine.steps(4, names(5, 6))
    while again.blocks != fresh.blocks:
        again = engine.steps(4, (name(100 + again.blocks[0]),))
    engine.exchange.step_finished(StepId(3))
    (write,) = engine.hears(want(again.hashes)).writes()
    assert write.after == StepId(4)


def test_nobody_computes_it_is_said_after_a_grace_and_then_at_once() -> None:
    engine = Engine(settings=ExchangeSettings(nobody_grace=Seconds(2.0))).with_peer()
    engine.exchange.request_produces(RequestId("r"), names(0, 2))
    engine.hears(want(names(0, 4)))
    assert engine.at(1.9).messages() == []
    assert engine.at(0.1).messages() == [Missing(WantId(1), indices(2, 3), MissingReason.NOBODY)]
    engine.exchange.request_ended(RequestId("r"), engine.now, offer=False)
    assert engine.messages() == [Missing(WantId(1), indices(0, 1), MissingReason.NOBODY)]


def test_two_requests_for_one_hash_are_two_chances() -> None:
    engine = Engine(settings=ExchangeSettings(nobody_grace=Seconds(2.0))).with_peer()
    engine.exchange.request_produces(RequestId("one"), names(0, 1))
    engine.exchange.request_produces(RequestId("two"), names(0, 1))
    engine.hears(want(names(0, 1))).at(2.0)
    engine.exchange.request_ended(RequestId("one"), engine.now, offer=False)
    assert engine.messages() == []
    engine.exchange.request_ended(RequestId("two"), engine.now, offer=False)
    assert engine.messages() == [Missing(WantId(1), indices(0), MissingReason.NOBODY)]


def test_a_request_that_comes_within_the_grace_is_waited_for() -> None:
    engine = Engine(settings=ExchangeSettings(nobody_grace=Seconds(2.0))).with_peer()
    engine.hears(want(names(0, 1))).at(1.0)
    engine.exchange.request_produces(RequestId("r"), names(0, 1))
    assert engine.at(5.0).messages() == []
    engine.steps(1, names(0, 1))
    assert len(engine.writes()) == 1


def test_an_orphan_that_came_into_the_cache_unnoticed_is_written_all_the_same() -> None:
    engine = Engine(settings=ExchangeSettings(nobody_grace=Seconds(2.0))).with_peer()
    engine.hears(want(names(0, 2)))
    engine.pool.cached(name(0))
    engine.at(2.0)
    posted, send = (command for command in engine.commands() if isinstance(command, PostWrite | Send))
    assert isinstance(posted, PostWrite)
    assert posted.write.indices == indices(0)
    assert send == Send(PEER, Missing(WantId(1), indices(1), MissingReason.NOBODY))


def test_a_failed_write_is_reported_when_it_has_ended_and_never_repeated() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(*names(0, 2))
    (write,) = engine.hears(want(names(0, 2))).writes()
    engine.wrote(write, written=False)
    assert engine.messages() == [Missing(WantId(1), indices(0, 1), MissingReason.WRITE_FAILED)]
    assert engine.hears(want(names(0, 2))).commands() == []
    assert engine.pool.free == 100


def test_a_write_that_broke_is_reported_as_one_that_may_still_arrive_and_its_sources_stay_referenced() -> None:
    engine = Engine(settings=ExchangeSettings(transport_bound=Seconds(10.0))).with_peer()
    engine.pool.cached(*names(0, 2))
    engine.hears(want(names(0, 2)))
    (write,) = engine.writes()

    engine.wrote(write, written=False, uncertain=True)

    assert engine.messages() == [Missing(WantId(1), indices(0, 1), MissingReason.UNCERTAIN)]
    assert engine.exchange.gauges().blocks_pinned == 2
    assert engine.at(9.9).exchange.held
    assert not engine.at(0.2).exchange.held
    assert engine.exchange.gauges().blocks_pinned == 0


def test_that_a_write_broke_is_said_again_to_who_asks_again_and_with_the_acknowledgement() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    engine.hears(want(names(0, 1)))
    (write,) = engine.writes()
    engine.hears(Cancel(WantId(1))).wrote(write, written=False, uncertain=True)

    assert engine.messages() == [CancelAck(WantId(1), uncertain=True)]
    assert engine.hears(Ping((WantId(1),), (), WantId(1), 0)).messages() == [
        Missing(WantId(1), indices(0), MissingReason.UNCERTAIN)
    ]
    assert engine.hears(Cancel(WantId(1))).messages() == [CancelAck(WantId(1), uncertain=True)]


def test_nothing_is_posted_when_the_time_to_live_is_nearly_over() -> None:
    engine = Engine(settings=ExchangeSettings(post_margin=0.1)).with_peer()
    engine.exchange.request_produces(RequestId("r"), names(0, 1))
    engine.hears(want(names(0, 1), ttl=10.0))
    assert engine.at(8.9).messages() == []
    assert engine.at(0.1).messages() == [Missing(WantId(1), indices(0), MissingReason.EXPIRED)]
    engine.steps(1, names(0, 1))
    assert engine.writes() == []


def test_a_cancel_is_acknowledged_when_the_last_write_has_ended() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    (write,) = engine.hears(want(names(0, 2))).writes()
    engine.hears(Cancel(WantId(1)))
    assert engine.commands() == [WithdrawWrites((write.job,))]
    engine.wrote(write, written=False)
    assert engine.messages() == [CancelAck(WantId(1))]


def test_a_want_after_its_own_cancel_is_not_served() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    assert engine.hears(Cancel(WantId(1))).messages() == [CancelAck(WantId(1))]
    assert engine.hears(want(names(0, 1))).commands() == []


def test_a_pinged_want_that_is_not_known_is_missing_and_refused_when_it_comes_late() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    assert engine.hears(Ping((WantId(1),), (), WantId(1), 0)).messages() == [
        Missing(WantId(1), None, MissingReason.UNKNOWN)
    ]
    assert engine.hears(want(names(0, 1))).commands() == []


def test_a_want_older_than_the_oldest_open_one_is_refused() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    engine.hears(Ping((), (), WantId(5), 0))
    assert engine.hears(want(names(0, 1), number=4)).commands() == []
    assert len(engine.hears(want(names(0, 1), number=5)).writes()) == 1


def test_a_lost_missing_is_said_again_when_the_want_is_pinged() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(1))
    (write,) = engine.hears(want(names(0, 2), wait=False)).writes()
    engine.wrote(write).commands()
    again = engine.hears(Ping((WantId(1),), (), WantId(1), 0)).messages()
    assert again == [Missing(WantId(1), indices(0), MissingReason.UNKNOWN)]


def test_nothing_is_said_of_a_pinged_want_that_is_served_or_was_written_whole() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    (write,) = engine.hears(want(names(0, 1))).writes()
    ping = Ping((WantId(1),), (), WantId(1), 0)
    assert engine.hears(ping).commands() == []
    engine.wrote(write).commands()
    assert engine.hears(ping).commands() == []


def test_a_lost_acknowledgement_is_said_again_when_the_want_is_pinged() -> None:
    engine = Engine().with_peer()
    engine.hears(want(names(0, 1))).hears(Cancel(WantId(1))).commands()
    assert engine.hears(Ping((), (WantId(1),), WantId(1), 0)).messages() == [CancelAck(WantId(1))]


def test_a_repeated_want_is_served_once() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    assert len(engine.hears(want(names(0, 1))).hears(want(names(0, 1))).writes()) == 1


def test_a_destination_outside_the_peers_pool_makes_it_a_bad_peer() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(*names(0, 2))
    engine.hears(want(names(0, 2), first=PEER_BLOCKS - 1))
    assert engine.commands() == [DropPeer(PEER, f"want 1: block {PEER_BLOCKS} of a pool of {PEER_BLOCKS}")]


def test_only_so_many_blocks_are_pinned_and_the_others_follow() -> None:
    engine = Engine(settings=ExchangeSettings(pinned_blocks=3, blocks_per_write=2)).with_peer().with_peer(OTHER)
    engine.pool.cached(*names(0, 5))
    first, second = engine.hears(want(names(0, 4))).writes()
    assert (first.indices, second.indices) == (indices(0, 1), indices(2))
    assert engine.hears(want(names(4, 5)), peer=OTHER).writes() == []
    (third,) = engine.wrote(second).writes()
    assert (third.peer, third.indices) == (PEER, indices(3))
    (fourth,) = engine.wrote(first).writes()
    assert (fourth.peer, fourth.indices) == (OTHER, indices(0))


def test_what_left_the_cache_while_it_waited_to_be_pinned_is_missing() -> None:
    engine = Engine(settings=ExchangeSettings(pinned_blocks=1)).with_peer()
    engine.pool.cached(*names(0, 2))
    (write,) = engine.hears(want(names(0, 2))).writes()
    engine.pool.churn()
    engine.wrote(write)
    assert engine.messages() == [Missing(WantId(1), indices(1), MissingReason.NOT_CACHED)]


def test_more_wants_of_one_peer_than_allowed_are_refused() -> None:
    engine = Engine(settings=ExchangeSettings(wants_per_peer=1)).with_peer().with_peer(OTHER)
    engine.exchange.request_produces(RequestId("r"), names(0, 1))
    engine.hears(want(names(0, 1)))
    assert engine.hears(want(names(0, 1), number=2)).messages() == [Missing(WantId(2), None, MissingReason.REFUSED)]
    assert engine.hears(want(names(0, 1)), peer=OTHER).messages() == []


def test_more_blocks_of_one_peers_wants_than_allowed_are_refused_until_some_are_over() -> None:
    engine = Engine(settings=ExchangeSettings(hashes_per_peer=5)).with_peer().with_peer(OTHER)
    engine.exchange.request_produces(RequestId("r"), names(0, 4))
    engine.hears(want(names(0, 3)))
    assert engine.hears(want(names(0, 3), number=2)).messages() == [Missing(WantId(2), None, MissingReason.REFUSED)]
    assert engine.hears(want(names(0, 2), number=3)).messages() == []
    assert engine.hears(want(names(0, 3)), peer=OTHER).messages() == []
    engine.hears(Cancel(WantId(1))).messages()
    assert engine.hears(want(names(1, 4), number=4)).messages() == []


def test_a_silent_wanter_gets_nothing_more_and_is_told_when_it_asks() -> None:
    engine = Engine().with_peer()
    engine.exchange.request_produces(RequestId("r"), names(0, 2))
    engine.hears(want(names(0, 2)))
    engine.exchange.peer_silent(PEER, engine.now)
    engine.commands()
    engine.steps(1, names(0, 2))
    assert engine.writes() == []
    engine.exchange.peer_back(PEER, engine.now)
    assert engine.hears(Ping((WantId(1),), (), WantId(1), 0)).messages() == [
        Missing(WantId(1), indices(0, 1), MissingReason.UNKNOWN)
    ]


def test_a_wanter_that_ended_leaves_nothing_but_the_writes_in_flight() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    (write,) = engine.hears(want(names(0, 3))).writes()
    engine.exchange.peer_gone(PEER, engine.now)
    assert engine.commands() == [WithdrawWrites((write.job,))]
    assert engine.exchange.gauges().hashes_awaited == 0
    assert engine.wrote(write, written=False).messages() == []
    assert engine.exchange.gauges().wants_served == 0
    assert not engine.exchange.held


def test_a_reset_gives_up_what_is_not_in_flight() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    (write,) = engine.hears(want(names(0, 2))).writes()
    engine.exchange.reset(engine.now)
    assert engine.messages() == [Missing(WantId(1), indices(1), MissingReason.RESET)]
    assert engine.exchange.held
    engine.wrote(write)
    assert not engine.exchange.held
    assert engine.pool.reset()


def test_an_engine_that_shuts_down_serves_no_new_want() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    engine.exchange.shutdown(engine.now)
    assert engine.hears(want(names(0, 1))).messages() == [Missing(WantId(1), None, MissingReason.SHUTDOWN)]


def test_a_query_is_answered_by_the_length_of_the_cached_prefix() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0), name(1), name(3))
    assert engine.hears(Query(QueryId(4), names(0, 5))).messages() == [Have(QueryId(4), 2)]


def test_a_message_for_another_incarnation_is_answered_and_not_acted_on() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    former = EngineId("former me")
    assert engine.hears(want(names(0, 1)), target=former).commands() == [Send(PEER, Gone(former))]
    assert engine.hears(Gone(ME), target=former).commands() == []
    assert engine.exchange.tally.misaddressed == 2


def test_strangers_and_ended_engines_are_not_heard() -> None:
    engine = Engine().with_peer()
    engine.pool.cached(name(0))
    engine.exchange.peer_gone(PEER, engine.now)
    assert engine.hears(want(names(0, 1))).commands() == []
    assert engine.hears(want(names(0, 1)), peer=OTHER).commands() == []
    assert engine.exchange.tally.strangers == 2
    assert not engine.exchange.peer_connected(PEER, PEER_BLOCKS, engine.now)
