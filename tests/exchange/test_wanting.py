# SPDX-License-Identifier: Apache-2.0
"""Own wants: how they end, and when their blocks may be used for other content."""

import pytest

from tandem_connector.contract.messages import Cancel, CancelAck, Missing, MissingReason, Ping, Purpose, Want
from tandem_connector.contract.types import WantId
from tandem_connector.exchange.commands import DropPeer, ExpectFewer, ForgetWant, LoadEnded, Send
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockId, EndReason, Load, RequestId, Seconds
from tests.exchange.builders import OTHER, PEER, Engine, indices, names, places


def ended(engine: Engine) -> LoadEnded:
    (one,) = engine.take(LoadEnded)
    return one


def missing(want: WantId, *values: int) -> Missing:
    return Missing(want, indices(*values), MissingReason.NOT_CACHED)


def test_ids_only_grow() -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    assert [engine.wants(names(0, 1)), engine.wants(names(1, 2), peer=OTHER), engine.wants(names(2, 3))] == [1, 2, 3]


def test_a_want_ends_when_all_is_written_or_missing() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 4))
    engine.received(want, 0, 1).hears(missing(want, 3))
    assert engine.take(LoadEnded) == []
    engine.received(want, 2)
    end = ended(engine)
    assert (end.good, end.bad, end.reason) == (indices(0, 1, 2), indices(3), EndReason.MISSING)


def test_the_workers_are_told_how_many_blocks_come_no_more_while_others_may() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 4))
    engine.received(want, 0).hears(missing(want, 0, 3)).hears(missing(want, 3))
    assert engine.take(ExpectFewer) == [ExpectFewer(want, 1)]
    engine.hears(missing(want, 1, 2))
    assert engine.take(ExpectFewer) == []


def test_missing_without_indices_means_all_that_was_not_written() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 3))
    engine.received(want, 1).hears(Missing(want, None, MissingReason.UNKNOWN))
    end = ended(engine)
    assert (end.good, end.bad, end.reason) == (indices(1), indices(0, 2), EndReason.MISSING)


def test_a_block_that_was_said_to_be_missing_is_not_good_when_it_arrives() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 2))
    engine.hears(missing(want, 0)).received(want, 0, 1)
    assert ended(engine).good == indices(1)


def test_repeated_notifications_count_once() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 2))
    engine.received(want, 0, 0).received(want, 0)
    assert engine.take(LoadEnded) == []
    assert engine.exchange.tally.blocks_received[Purpose.FORWARD] == 1


def test_a_notification_beyond_the_want_is_ignored() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 1))
    engine.received(want, 1, 500)
    assert engine.take(LoadEnded) == []


def test_a_missing_index_beyond_the_want_makes_its_sender_a_bad_peer() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 2))
    engine.hears(missing(want, 2))
    assert [type(command) for command in engine.commands()][-1] is DropPeer
    assert engine.exchange.tally.violations == 1
    assert engine.exchange.gauges().wants_open == 1


@pytest.mark.parametrize("kind", ["missing", "acknowledgement"])
def test_only_the_holder_can_end_a_want(kind: str) -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    want = engine.wants(names(0, 1))
    engine.at(10.0)
    engine.commands()
    engine.hears(missing(want, 0) if kind == "missing" else CancelAck(want), peer=OTHER)
    assert engine.exchange.gauges().wants_held == 1
    assert engine.commands() == []


def test_a_want_expires_and_its_blocks_wait_for_the_acknowledgement() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 3), ttl=5.0)
    engine.received(want, 0)
    engine.at(4.9)
    assert engine.take(LoadEnded) == []
    engine.at(0.1)
    commands = engine.commands()
    (end,) = [command for command in commands if isinstance(command, LoadEnded)]
    assert (end.good, end.bad, end.reason, end.waited) == (indices(0), indices(1, 2), EndReason.EXPIRED, Seconds(5.0))
    assert Send(PEER, Cancel(want)) in commands
    blocks = tuple(BlockId(block) for block in range(3))
    engine.pool.unpin(blocks)  # the request's own references
    assert engine.pool.free == 97
    engine.hears(CancelAck(want))
    assert engine.commands() == [ForgetWant(want)]
    assert engine.pool.free == 100


def test_an_ended_want_is_released_when_its_last_blocks_arrive_though_the_acknowledgement_is_lost() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 2), ttl=5.0)
    engine.at(5.0).received(want, 0, 1)
    assert engine.take(ForgetWant) == [ForgetWant(want)]


def test_an_acknowledgement_of_an_open_want_means_nothing() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 1))
    engine.hears(CancelAck(want))
    assert engine.exchange.gauges().wants_open == 1


def test_an_aborted_request_ends_all_its_wants_once() -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    engine.wants(names(0, 1))
    engine.wants(names(1, 2), peer=OTHER)
    engine.wants(names(2, 3), request="another")
    engine.exchange.request_ended(RequestId("request"), engine.now, offer=False)
    assert [(end.want, end.reason) for end in engine.take(LoadEnded)] == [
        (1, EndReason.CANCELLED),
        (2, EndReason.CANCELLED),
    ]
    engine.exchange.request_ended(RequestId("request"), engine.now, offer=False)
    assert engine.take(LoadEnded) == []


def test_after_a_reset_nothing_that_was_received_is_good() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 2))
    engine.received(want, 0)
    engine.exchange.reset(engine.now)
    end = ended(engine)
    assert (end.good, end.bad, end.reason) == ((), indices(0, 1), EndReason.RESET)
    assert engine.exchange.held
    engine.hears(CancelAck(want))
    assert not engine.exchange.held


def test_blocks_of_a_silent_peer_are_held_until_it_acknowledges() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 3))
    engine.commands()
    engine.exchange.peer_silent(PEER, engine.now)
    assert ended(engine).reason is EndReason.PEER_SILENT
    assert engine.exchange.gauges().blocks_quarantined == 3
    engine.at(10_000.0)
    assert engine.exchange.gauges().blocks_quarantined == 3
    engine.commands()
    engine.exchange.peer_back(PEER, engine.now)
    assert engine.exchange.gauges().blocks_quarantined == 0
    assert engine.at(0).messages() == [Ping((), (want,), want, 0)]
    engine.hears(CancelAck(want))
    assert not engine.exchange.held


def test_blocks_of_an_ended_engine_are_held_as_long_as_the_network_may_deliver() -> None:
    engine = Engine(settings=ExchangeSettings(transport_bound=Seconds(10.0))).with_peer()
    want = engine.wants(names(0, 3))
    engine.exchange.peer_gone(PEER, engine.now)
    assert ended(engine).reason is EndReason.PEER_GONE
    engine.at(9.9)
    assert engine.exchange.held
    engine.at(0.1)
    assert engine.take(ForgetWant) == [ForgetWant(want)]
    assert not engine.exchange.held


def test_a_silent_peer_that_turns_out_to_be_gone_is_waited_for_from_then_on() -> None:
    engine = Engine(settings=ExchangeSettings(transport_bound=Seconds(10.0))).with_peer()
    engine.wants(names(0, 3))
    engine.exchange.peer_silent(PEER, engine.now)
    engine.at(100.0).exchange.peer_gone(PEER, engine.now)
    assert engine.at(9.9).exchange.held
    assert not engine.at(0.1).exchange.held


def test_a_peer_that_pings_but_never_acknowledges_counts_as_quarantine() -> None:
    engine = Engine(settings=ExchangeSettings(cancel_patience=Seconds(5.0))).with_peer()
    engine.wants(names(0, 3), ttl=1.0)
    engine.at(1.0).at(4.9)
    assert engine.exchange.gauges().blocks_quarantined == 0
    engine.at(0.1)
    assert engine.exchange.gauges().blocks_quarantined == 3
    assert engine.exchange.held


def test_nothing_is_asked_of_a_peer_that_is_not_connected_silent_or_gone() -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    engine.exchange.peer_silent(PEER, engine.now)
    engine.exchange.peer_gone(OTHER, engine.now)
    load = Load(RequestId("r"), Purpose.FORWARD, names(0, 1), places(0), Seconds(1.0), wait=True)
    assert [engine.exchange.want(peer, load, engine.now) for peer in (PEER, OTHER)] == [None, None]
    assert engine.commands() == []
    assert engine.pool.free == 100


@pytest.mark.parametrize("ttl", [0.0, -1.0, 3_601.0, float("nan")])
def test_a_load_without_a_sensible_time_to_live_is_refused(ttl: float) -> None:
    with pytest.raises(ValueError, match="a time to live of"):
        Load(RequestId("r"), Purpose.FORWARD, names(0, 1), places(0), Seconds(ttl), wait=True)


def test_pings_name_what_is_open_and_what_is_not_acknowledged_until_nothing_is() -> None:
    engine = Engine(settings=ExchangeSettings(ping_interval=Seconds(0.5))).with_peer()
    first, second = engine.wants(names(0, 1), ttl=0.7), engine.wants(names(1, 2), ttl=9.0)
    engine.exchange.set_waiting_tokens(77)
    engine.messages()
    assert engine.at(0.5).messages() == [Ping((first, second), (), first, 77)]
    assert engine.at(0.5).messages() == [Cancel(first), Ping((second,), (first,), first, 77)]
    engine.hears(CancelAck(first)).received(second, 0)
    assert engine.at(0.5).messages() == [Ping((), (), WantId(3), 77)]
    assert engine.at(10.0).messages() == []
    assert engine.exchange.next_due() is None


def test_what_arrived_for_a_request_is_written_to_a_peer_who_waits_for_it() -> None:
    engine = Engine().with_peer().with_peer(OTHER)
    engine.exchange.request_produces(RequestId("request"), names(0, 3))
    engine.hears(Want(WantId(9), Purpose.FORWARD, names(0, 3), (7, 8, 9), 10.0, wait=True), peer=OTHER)
    want = engine.wants(names(0, 3))
    engine.commands()
    engine.received(want, 0, 2).hears(missing(want, 1))
    (write,) = engine.writes()
    assert (write.peer, write.want, write.indices, write.sources) == (OTHER, 9, indices(0), places(0))


def test_shutdown_ends_all_wants_and_is_over_when_all_is_acknowledged() -> None:
    engine = Engine().with_peer()
    want = engine.wants(names(0, 2))
    engine.exchange.shutdown(engine.now)
    assert ended(engine).reason is EndReason.CANCELLED
    load = Load(RequestId("r"), Purpose.FORWARD, names(0, 1), places(0), Seconds(1.0), wait=True)
    assert engine.exchange.want(PEER, load, engine.now) is None
    assert engine.exchange.held
    engine.hears(CancelAck(want))
    assert not engine.exchange.held
    assert not engine.exchange.expects_workers


@pytest.mark.parametrize("how", ["missing", "acknowledged"])
def test_blocks_into_which_a_broken_write_may_still_come_are_kept_for_the_transports_bound(how: str) -> None:
    engine = Engine(settings=ExchangeSettings(transport_bound=Seconds(10.0))).with_peer()
    want = engine.wants(names(0, 2), ttl=100.0)
    engine.received(want, 0)
    if how == "missing":
        engine.hears(Missing(want, indices(1), MissingReason.UNCERTAIN))
    else:
        engine.exchange.cancel(RequestId("request"), engine.now)
        engine.hears(CancelAck(want, uncertain=True))

    (ended,) = engine.take(LoadEnded)
    assert (ended.good, ended.bad) == (indices(0), indices(1))
    assert engine.exchange.gauges().blocks_quarantined == 2
    engine.at(5.0).hears(CancelAck(want, uncertain=True)).hears(Missing(want, None, MissingReason.UNCERTAIN))
    assert engine.at(4.9).exchange.held
    assert not engine.at(0.2).exchange.held


def test_a_peer_that_comes_back_does_not_release_what_its_broken_write_may_reach() -> None:
    engine = Engine(settings=ExchangeSettings(transport_bound=Seconds(10.0))).with_peer()
    want = engine.wants(names(0, 1), ttl=100.0)
    engine.hears(Missing(want, None, MissingReason.UNCERTAIN))
    engine.exchange.peer_silent(PEER, engine.now)
    engine.exchange.peer_back(PEER, engine.now)

    assert engine.at(9.0).exchange.held
    assert not engine.at(1.1).exchange.held
