# SPDX-License-Identifier: Apache-2.0
"""When peers are pinged, and when they count as silent."""

from tandem_connector.exchange.liveness import Liveness, LivenessChange, LivenessSettings
from tandem_connector.exchange.peers import REMEMBERED_ENDS, Peers, PeerState
from tandem_connector.exchange.types import EngineId, Seconds
from tests.exchange.builders import OTHER, PEER

NOTHING = LivenessChange((), ())


def a_watch() -> Liveness:
    liveness = Liveness(LivenessSettings(interval=0.5, silent_after=2.0, silent_interval=3.0))
    liveness.connected(PEER, Seconds(0.0))
    return liveness


def test_a_peer_is_pinged_at_each_interval() -> None:
    liveness = a_watch()
    assert liveness.tick(Seconds(0.4)) == NOTHING
    assert liveness.tick(Seconds(0.5)) == LivenessChange((PEER,), ())
    assert liveness.tick(Seconds(0.9)) == NOTHING
    assert liveness.next_due() == 1.0


def test_a_peer_that_is_not_heard_becomes_silent_once_and_is_pinged_more_rarely() -> None:
    liveness = a_watch()
    assert liveness.tick(Seconds(1.9)) == LivenessChange((PEER,), ())
    assert liveness.tick(Seconds(2.4)) == LivenessChange((PEER,), (PEER,))
    assert liveness.state(PEER) is PeerState.SILENT
    assert liveness.next_due() == 5.4
    assert liveness.tick(Seconds(5.4)) == LivenessChange((PEER,), ())


def test_a_silent_peer_comes_back_once_when_it_is_heard() -> None:
    liveness = a_watch()
    liveness.tick(Seconds(2.0))
    assert liveness.heard(PEER, Seconds(2.5))
    assert not liveness.heard(PEER, Seconds(2.6))
    assert liveness.tick(Seconds(3.0)).silent == ()


def test_a_process_that_was_stopped_does_not_blame_a_peer_that_it_reads_first() -> None:
    liveness = a_watch()
    liveness.heard(PEER, Seconds(1_000.0))
    assert liveness.tick(Seconds(1_000.0)) == LivenessChange((PEER,), ())


def test_a_forgotten_peer_is_neither_pinged_nor_silent() -> None:
    liveness = a_watch()
    liveness.forget(PEER)
    assert liveness.tick(Seconds(10.0)) == NOTHING
    assert not liveness.heard(PEER, Seconds(11.0))
    assert liveness.next_due() is None


def test_an_ended_incarnation_never_comes_back() -> None:
    peers = Peers()
    assert peers.connected(PEER, 10, publishes=False)
    assert peers.end(PEER, Seconds(5.0))
    assert not peers.end(PEER, Seconds(6.0))
    assert not peers.connected(PEER, 10, publishes=False)
    assert (peers.state(PEER), peers.ended_at(PEER)) == (PeerState.GONE, 5.0)
    assert not peers.set(PEER, PeerState.ALIVE)
    assert peers.state(OTHER) is None


def test_the_memory_of_ended_incarnations_is_bounded() -> None:
    peers = Peers()
    for number in range(REMEMBERED_ENDS + 1):
        peers.end(EngineId(str(number)), Seconds(0.0))
    assert peers.state(EngineId("0")) is None
    assert peers.state(EngineId("1")) is PeerState.GONE
