# SPDX-License-Identifier: Apache-2.0
"""Two engines on loopback: greeting, messages, peers that vanish and come back, and what is no message."""

import os
import sys
import time
from dataclasses import replace

import pytest
import zmq

from tandem_connector.contract.messages import (
    MAX_BYTES,
    Cancel,
    CancelAck,
    Gone,
    Have,
    Offer,
    Ping,
    Pong,
    Purpose,
    Query,
    Want,
    decode,
    encode,
)
from tandem_connector.contract.types import BlockHash, OfferId, QueryId, WantId
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.events import PeerBack, PeerJoined, PeerRefused, PeerReplaced, PeerSilent, Received
from tandem_connector.vllm.network.greeting import Stage as Greeting
from tandem_connector.vllm.network.sockets import ListenError
from tests.network.builders import QUICK, Stage, a_hello, a_socket_at, envelope, introduce, table


def test_engines_that_know_each_other_join_and_speak(stage: Stage) -> None:
    one, other = stage.pair()
    one.network.send(other.name, Cancel(WantId(3)))
    assert other.receives(Cancel(WantId(3))).envelope == envelope("one", "other", Cancel(WantId(3)))
    other.network.send(one.name, CancelAck(WantId(3)))
    one.receives(CancelAck(WantId(3)))
    assert one.network.stages() == {other.name: Greeting.JOINED}


def test_a_peer_that_joins_brings_its_hello(stage: Stage) -> None:
    one = stage.engine("one", hello=a_hello(ranks=2, tensor_parallel=2))
    other = stage.engine("other", hello=a_hello(ranks=2, tensor_parallel=2))
    introduce(one, other)
    hello = one.hears(PeerJoined).hello
    assert (hello.blocks, len(hello.ranks), hello.fingerprint.tensor_parallel) == (100, 2, 2)


def test_messages_come_in_the_order_in_which_they_were_sent(stage: Stage) -> None:
    one, other = stage.pair()
    for number in range(500):
        one.network.send(other.name, Cancel(WantId(number)))
    other.receives(Cancel(WantId(499)))
    assert [event.envelope.message for event in other.told if isinstance(event, Received)] == [
        Cancel(WantId(number)) for number in range(500)
    ]


def test_the_longest_want_that_is_allowed_comes_whole(stage: Stage) -> None:
    one, other = stage.pair()
    count = 65_536
    want = Want(
        want=WantId(1),
        purpose=Purpose.FORWARD,
        hashes=tuple(BlockHash(number.to_bytes(32, "big")) for number in range(count)),
        destinations=tuple(range(count)),
        ttl=1.0,
        wait=True,
    )
    one.network.send(other.name, want)
    assert other.receives(want).envelope.sender == one.name


def test_a_peer_joins_though_its_table_is_late(stage: Stage) -> None:
    one, other = stage.engine("one"), stage.engine("other")
    one.network.set_peers(table(one, other))
    other.until(lambda: other.network.counts.strangers > 1)
    assert other.kinds(PeerJoined) == 0
    other.network.set_peers(table(one, other))
    assert other.hears(PeerJoined).peer == one.name
    assert one.hears(PeerJoined).peer == other.name


def test_a_peer_that_does_not_listen_yet_joins_when_it_does(stage: Stage) -> None:
    one, first = stage.engine("one"), stage.engine("other")
    at = first.network.endpoint
    first.network.close()
    one.network.set_peers({EngineId("other"): at})
    one.network.send(EngineId("other"), Cancel(WantId(1)))
    one.until(lambda: one.network.counts.unsent == 1)
    other = stage.engine("other", at=at)
    introduce(one, other)


@pytest.mark.parametrize(
    ("difference", "why"),
    [
        ({"block_size": 32}, "block_size: 16 != 32"),
        ({"hash_seed": "1", "dtype": "float16"}, "dtype: 'bfloat16' != 'float16'; hash_seed: '0' != '1'"),
        ({"version": 2}, "version: 1 != 2"),
        ({"ranks": 2}, "ranks: 1 != 2"),
    ],
)
def test_a_peer_that_does_not_fit_is_refused_by_name_of_the_field(
    stage: Stage, difference: dict[str, object], why: str
) -> None:
    one, other = stage.engine("one"), stage.engine("other", hello=a_hello(**difference))  # type: ignore[arg-type]
    for engine in (one, other):
        engine.network.set_peers(table(one, other))
    assert one.hears(PeerRefused) == PeerRefused(other.name, why)
    assert other.hears(PeerRefused).peer == one.name
    assert one.network.stages() == {other.name: Greeting.REFUSED}
    assert one.kinds(PeerJoined) == other.kinds(PeerJoined) == 0


def test_a_message_for_an_ended_incarnation_is_answered_and_not_delivered(stage: Stage) -> None:
    one, other = stage.pair()
    with a_socket_at(other) as socket:
        socket.send(encode(envelope("one", "other-before", Cancel(WantId(1)))))
        answer = decode(socket.recv())
        assert answer == envelope("other", "one", Gone(EngineId("other-before")))
        socket.send(encode(envelope("one", "other-before", Gone(EngineId("x")))))
    one.network.send(other.name, Cancel(WantId(2)))
    other.receives(Cancel(WantId(2)))
    assert other.kinds(Received) == 1
    other.until(lambda: other.network.counts.misaddressed == 2)


def test_another_incarnation_at_the_address_is_certain_death_and_a_peer_of_its_own(stage: Stage) -> None:
    one, first = stage.engine("one"), stage.engine("other-1")
    introduce(one, first)
    at = first.network.endpoint
    first.network.close()
    second = stage.engine("other-2", at=at)
    assert one.hears(PeerReplaced) == PeerReplaced(first.name, second.name)
    assert one.network.stages() == {first.name: Greeting.REPLACED}
    one.network.send(first.name, Cancel(WantId(1)))
    introduce(one, second)
    one.network.send(second.name, Cancel(WantId(2)))
    second.receives(Cancel(WantId(2)))
    assert second.kinds(Received) == 1
    assert one.kinds(PeerBack) == 0


def test_a_peer_that_vanishes_is_silent_and_is_back_when_it_is_heard_again(stage: Stage) -> None:
    one, other = stage.pair()
    other.network.close()
    assert one.hears(PeerSilent).peer == other.name
    again = stage.engine("other", at=other.network.endpoint)
    introduce(one, again)
    assert one.hears(PeerBack).peer == other.name
    assert (one.kinds(PeerJoined), one.kinds(PeerReplaced)) == (1, 0)


def test_nothing_waits_for_a_peer_that_is_away(stage: Stage) -> None:
    one, other = stage.pair()
    other.network.close()
    one.hears(PeerSilent)
    one.network.send(other.name, Cancel(WantId(7)))
    one.until(lambda: one.network.counts.unsent > 0)
    again = stage.engine("other", at=other.network.endpoint)
    introduce(one, again)
    one.network.send(again.name, Cancel(WantId(8)))
    again.receives(Cancel(WantId(8)))
    assert again.kinds(Received) == 1


def test_peers_hear_each_other_while_their_owners_take_nothing(stage: Stage) -> None:
    one, other = stage.pair()
    before = one.network.counts.received
    one.until(lambda: one.network.counts.received > before + 10)
    assert (one.kinds(PeerSilent), other.kinds(PeerSilent)) == (0, 0)
    assert (one.kinds(Received), other.kinds(Received)) == (0, 0), "pings that name no want are the network's own"


def test_a_stopped_process_does_not_blame_its_peers(stage: Stage) -> None:
    jump = [0.0]
    one = stage.engine("one", clock=lambda: time.monotonic() + jump[0])
    other = stage.engine("other")
    introduce(one, other)
    for _ in range(3):
        jump[0] += 100.0
        before = one.network.counts.received
        one.until(lambda seen=before: one.network.counts.received > seen + 3)  # type: ignore[misc]
    assert one.kinds(PeerSilent) == 0


def test_pings_that_name_wants_reach_the_owner_and_all_are_answered(stage: Stage) -> None:
    one, other = stage.pair()
    ping = Ping((WantId(4),), (), WantId(4), 0)
    one.network.send(other.name, ping)
    other.receives(ping)
    floor = Ping((), (), WantId(5), 0)
    one.network.send(other.name, floor)
    other.receives(floor)
    assert one.kinds(Received) == 0


def test_peers_tell_each_other_how_much_waits(stage: Stage) -> None:
    one, other = stage.pair()
    one.network.set_waiting_tokens(7_000)
    other.until(lambda: other.network.waiting_tokens(one.name) == 7_000)
    assert one.network.waiting_tokens(EngineId("nobody")) is None


def test_a_stranger_is_not_listened_to(stage: Stage) -> None:
    one, other = stage.pair()
    with a_socket_at(one) as socket:
        socket.send(encode(envelope("stranger", "one", a_hello())))
        socket.send(encode(envelope("stranger", "one", Query(QueryId(1), (BlockHash(b"x" * 32),)))))
        one.until(lambda: one.network.counts.strangers == 2)
    assert one.network.stages() == {other.name: Greeting.JOINED}
    assert one.kinds(Received) == 0


def test_a_peer_that_has_not_said_hello_is_not_listened_to(stage: Stage) -> None:
    one = stage.engine("one")
    one.network.set_peers({EngineId("silent"): Endpoint("127.0.0.1", 1)})
    with a_socket_at(one) as socket:
        socket.send(encode(envelope("silent", "one", Have(QueryId(1), 3))))
        one.until(lambda: one.network.counts.strangers == 1)
    assert one.kinds(Received) == 0


def test_garbage_from_nobody_in_particular_harms_nobody(stage: Stage) -> None:
    one, other = stage.pair()
    with a_socket_at(one) as socket:
        socket.send(os.urandom(1_000))
        socket.send(b"")
        socket.send_multipart([encode(envelope("other", "one", Pong(0))), b"more"])
        one.until(lambda: one.network.counts.garbage == 3)
    other.network.send(one.name, Cancel(WantId(1)))
    one.receives(Cancel(WantId(1)))
    assert one.network.stages() == {other.name: Greeting.JOINED}


def test_garbage_on_a_peers_connection_drops_the_peer(stage: Stage) -> None:
    one, other = stage.pair()
    with a_socket_at(one) as socket:
        socket.send(encode(envelope("other", "one", Cancel(WantId(1)))))
        socket.send(b"\xc1")
        assert one.hears(PeerSilent).peer == other.name
    assert one.network.stages() == {other.name: Greeting.DROPPED}


def test_a_dropped_peer_is_not_listened_to_again(stage: Stage) -> None:
    one, other = stage.pair()
    one.network.drop(other.name, "it asked for block 1000 of 100")
    assert one.hears(PeerSilent).peer == other.name
    strangers = one.network.counts.strangers
    one.until(lambda: one.network.counts.strangers > strangers)
    one.network.set_peers(table(other))
    one.network.drop(other.name, "again")
    one.network.send(other.name, Cancel(WantId(1)))
    one.until(lambda: one.network.counts.unsent > 0)
    assert (one.kinds(PeerBack), one.kinds(PeerSilent)) == (0, 1)


def test_what_is_longer_than_allowed_is_not_read(stage: Stage) -> None:
    one, other = stage.pair()
    before = one.network.counts.garbage
    with a_socket_at(one) as socket:
        monitor = socket.get_monitor_socket()
        monitor.rcvtimeo = 20_000
        socket.send(bytes(MAX_BYTES + 1))
        while int.from_bytes(monitor.recv_multipart()[0][:2], sys.byteorder) != zmq.EVENT_DISCONNECTED:
            pass
        socket.disable_monitor()
    other.network.send(one.name, Cancel(WantId(1)))
    one.receives(Cancel(WantId(1)))
    assert one.network.counts.garbage == before


def test_messages_beyond_the_inbox_are_thrown_away_and_changes_of_peers_are_not(stage: Stage) -> None:
    one = stage.engine("one", settings=replace(QUICK, inbox_bytes=100_000))
    other = stage.engine("other")
    introduce(one, other)
    offer = Offer(OfferId(1), Purpose.REVERSE_PUSH, 0, tuple(BlockHash(bytes([n]) * 32) for n in range(250)))
    for _ in range(100):
        other.network.send(one.name, offer)
    deadline = time.monotonic() + 20
    while one.network.counts.overflowed == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    other.network.close()
    assert one.hears(PeerSilent).peer == other.name
    assert 0 < one.kinds(Received) < 100


def test_a_removed_peer_is_forgotten_and_may_return(stage: Stage) -> None:
    one, other = stage.pair()
    one.network.set_peers({})
    strangers = one.network.counts.strangers
    one.until(lambda: one.network.stages() == {} and one.network.counts.strangers > strangers)
    one.told.clear()
    introduce(one, other)
    one.network.send(other.name, Cancel(WantId(1)))
    other.receives(Cancel(WantId(1)))


def test_a_peer_that_is_kept_goes_on_being_heard_and_answered(stage: Stage) -> None:
    one, other = stage.pair()
    one.network.set_peers({}, kept=[other.name])
    other.network.send(one.name, Cancel(WantId(1)))
    one.receives(Cancel(WantId(1)))
    one.network.send(other.name, Cancel(WantId(2)))
    other.receives(Cancel(WantId(2)))


def test_an_engine_that_has_not_answered_is_not_kept(stage: Stage) -> None:
    one = stage.engine("one")
    absent = EngineId("absent")
    one.network.set_peers({absent: Endpoint("127.0.0.1", 1)})
    one.until(lambda: absent in one.network.stages())
    one.network.set_peers({}, kept=[absent])
    one.until(lambda: absent not in one.network.stages())


def test_without_keys_only_loopback_is_listened_on_and_connected_to(stage: Stage) -> None:
    with pytest.raises(ListenError, match=r"may not listen on 0\.0\.0\.0:\* without keys.*mount the resource's key"):
        stage.engine("open", at=Endpoint("0.0.0.0", 0))
    one = stage.engine("one")
    one.network.set_peers({EngineId("far"): Endpoint("10.0.0.1", 5601)})
    assert (
        one.hears(PeerRefused).why == "10.0.0.1:5601 is on another machine, and without keys only loopback is allowed"
    )


def test_an_address_that_is_taken_is_named(stage: Stage) -> None:
    one = stage.engine("one")
    with pytest.raises(
        ListenError, match=f"can't listen on 127.0.0.1:{one.network.endpoint.port}: Address already in use"
    ):
        stage.engine("other", at=one.network.endpoint)


def test_without_peers_a_network_waits_for_ever(stage: Stage) -> None:
    assert stage.engine("one").network._loop._timeout() is None


def test_engines_speak_over_ipv6(stage: Stage) -> None:
    one, other = stage.engine("one", at=Endpoint("::1", 0)), stage.engine("other")
    introduce(one, other)
    assert one.network.endpoint.url.startswith("tcp://[::1]:")


def test_a_network_ends_when_it_is_closed_and_what_was_sent_before_still_goes_out(stage: Stage) -> None:
    one, other = stage.pair()
    for number in range(50):
        one.network.send(other.name, CancelAck(WantId(number)))
    assert one.network.close()
    assert one.network.close(), "closing twice is nothing"
    other.receives(CancelAck(WantId(49)))
    one.network.send(other.name, Cancel(WantId(1)))
