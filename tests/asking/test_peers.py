# SPDX-License-Identifier: Apache-2.0
"""Which engines of the peer table may be asked, and their load."""

import pytest

from tandem_connector.asking.choose import Candidate
from tandem_connector.asking.peers import Prefillers
from tandem_connector.contract.peers import Peer
from tandem_connector.contract.types import EngineState, Role
from tandem_connector.exchange.types import EngineId, Seconds
from tests.asking.builders import A, B, C, a_peer

NOW = Seconds(100.0)


def prefillers(*peers: Peer) -> Prefillers:
    known = Prefillers()
    known.replace(peers)
    for peer in peers:
        known.reachable(peer.engine)
    return known


def test_a_ready_reachable_engine_may_be_asked() -> None:
    assert prefillers(a_peer(A)).candidates(NOW) == (Candidate(A, 0),)


@pytest.mark.parametrize(
    "peer",
    [
        a_peer(A, state=EngineState.STARTING),
        a_peer(A, state=EngineState.DRAINING),
        a_peer(A, role=Role.DECODE),
    ],
    ids=["starting", "draining", "decode"],
)
def test_another_engine_may_not(peer: Peer) -> None:
    assert prefillers(peer).candidates(NOW) == ()


def test_an_engine_is_not_asked_before_it_is_connected_nor_while_it_is_silent() -> None:
    known = Prefillers()
    known.replace([a_peer(A)])
    assert known.candidates(NOW) == ()

    known.reachable(A)
    assert known.candidates(NOW) == (Candidate(A, 0),)

    known.unreachable(A)
    assert known.candidates(NOW) == ()


def test_load_is_what_the_engine_said_and_what_was_asked_since() -> None:
    known = prefillers(a_peer(A), a_peer(B))

    known.asked(A, 50)
    known.waiting(A, 1_000)
    known.asked(A, 300)

    assert known.candidates(NOW) == (Candidate(A, 1_300), Candidate(B, 0))


def test_a_resting_engine_may_be_asked_again_later_and_is_home_meanwhile() -> None:
    known = prefillers(a_peer(A))

    known.rest(A, Seconds(110.0))

    assert known.candidates(Seconds(109.9)) == ()
    assert known.usable() == {A}
    assert known.candidates(Seconds(110.0)) == (Candidate(A, 0),)


def test_an_engine_that_rests_from_an_adapter_may_be_asked_for_all_that_is_without_it() -> None:
    known = prefillers(a_peer(A))

    known.rest(A, Seconds(110.0), "poet")

    assert known.candidates(Seconds(109.9), lora="poet") == ()
    assert known.candidates(Seconds(109.9), lora="clerk") == known.candidates(Seconds(109.9)) == (Candidate(A, 0),)
    assert known.candidates(Seconds(110.0), lora="poet") == (Candidate(A, 0),)


def test_an_engine_that_rests_is_asked_for_no_adapter_either() -> None:
    known = prefillers(a_peer(A))

    known.rest(A, Seconds(110.0))

    assert known.candidates(NOW, lora="poet") == ()


def test_an_engine_that_left_the_table_is_no_more_asked() -> None:
    known = prefillers(a_peer(A), a_peer(B))

    known.replace([a_peer(B), a_peer(C)])
    assert known.candidates(NOW) == (Candidate(B, 0),)


def test_engines_that_were_tried_are_not_candidates() -> None:
    assert prefillers(a_peer(A), a_peer(B)).candidates(NOW, {A}) == (Candidate(B, 0),)


def test_the_ranks_behind_a_server_that_was_tried_are_candidates_only_if_there_are_no_others() -> None:
    first, second = EngineId("a-1_dp0"), EngineId("a-1_dp1")
    assert prefillers(a_peer(first), a_peer(second), a_peer(B)).candidates(NOW, {first}) == (Candidate(B, 0),)
    assert prefillers(a_peer(first), a_peer(second)).candidates(NOW, {first}) == (Candidate(second, 0),)


def test_when_a_server_rests_all_of_its_ranks_do() -> None:
    first, second = EngineId("a-1_dp0"), EngineId("a-1_dp1")
    known = prefillers(a_peer(first), a_peer(second), a_peer(B))

    known.rest_server(first, Seconds(110.0))

    assert known.candidates(Seconds(109.9)) == (Candidate(B, 0),)
    assert len(known.candidates(Seconds(110.0))) == 3


def test_an_engine_that_connects_before_the_table_names_it_may_be_asked_when_it_does() -> None:
    known = Prefillers()
    known.reachable(A)
    assert known.candidates(NOW) == ()

    known.replace([a_peer(A)])

    assert known.candidates(NOW) == (Candidate(A, 0),)
