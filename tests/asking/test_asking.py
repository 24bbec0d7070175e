# SPDX-License-Identifier: Apache-2.0
"""A decode engine's requests, from arrival to end."""

import pytest

from tandem_connector.asking.choose import How
from tandem_connector.asking.commands import (
    CancelCall,
    ComputeLocally,
    Prefilled,
    SendQuery,
    StartCall,
    WantFrom,
)
from tandem_connector.asking.types import Failure, LocalReason, Obstacle
from tandem_connector.contract.types import EngineState
from tandem_connector.exchange.types import EngineId, RequestId, Seconds
from tests.asking.builders import SETTINGS, A, B, C, Decode, a_peer, an_arrival, names, settings

R = RequestId("r")


def test_a_request_is_asked_for_and_its_blocks_wanted_at_the_same_moment() -> None:
    decode = Decode().with_peers(A)

    call, want = decode.gets(an_arrival(), held_blocks=10).commands()

    assert isinstance(call, StartCall)
    assert (call.engine, call.held_tokens, call.arrival.request) == (A, 160, R)
    assert call.address == a_peer(A).address
    assert want == WantFrom(R, A, 10, 62, Seconds(decode.now + call.timeout))


def test_without_peers_a_decode_engine_computes_all_itself() -> None:
    assert Decode().gets(an_arrival()).commands() == [ComputeLocally(R, LocalReason.NO_PEER, None)]


def test_what_prefill_cannot_compute_is_computed_here() -> None:
    decode = Decode().with_peers(A).gets(an_arrival(obstacles=[Obstacle.MULTIMODAL]))

    assert decode.commands() == [ComputeLocally(R, Obstacle.MULTIMODAL, None)]
    assert decode.asking.tally.local == {Obstacle.MULTIMODAL: 1}


def test_an_answer_is_told_to_the_request() -> None:
    decode = Decode().with_peers(A).gets(an_arrival())
    call = decode.only(StartCall).call

    decode.after(2.0).answered(call)

    assert decode.commands() == [Prefilled(R, A, None, Seconds(2.0))]
    assert decode.asking.next_due() is None


def test_a_request_that_is_told_of_twice_is_asked_for_once() -> None:
    decode = Decode().with_peers(A).gets(an_arrival()).gets(an_arrival())

    assert len(decode.take(StartCall)) == 1


def test_a_failed_p_is_replaced_and_the_blocks_wanted_of_the_next() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival())
    first = decode.only(StartCall)

    second, want = decode.failed(first.call).commands()

    assert isinstance(second, StartCall)
    assert isinstance(want, WantFrom)
    assert want.engine == second.engine != first.engine


def test_an_engine_that_drains_asks_for_nothing_new_and_goes_on_with_what_it_asked_for() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("before"))
    call = decode.only(StartCall)
    decode.asking.drain(drains=True)
    assert decode.gets(an_arrival("new", chain="y")).commands() == [
        ComputeLocally(RequestId("new"), LocalReason.DRAINING, None)
    ]
    assert decode.answered(call.call).take(Prefilled) != []
    decode.asking.drain(drains=False)
    assert decode.gets(an_arrival("after", chain="z")).take(StartCall) != []


def test_a_p_that_failed_is_left_alone_for_a_while() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one"))
    decode.failed(decode.only(StartCall).call)

    assert decode.gets(an_arrival("two", chain="y")).take(StartCall) == []
    assert len(decode.after(SETTINGS.rest).gets(an_arrival("three", chain="z")).take(StartCall)) == 1


@pytest.mark.parametrize(("failure", "left"), [(Failure.REFUSED, 0), (Failure.SLOW, 1)])
def test_with_a_p_whose_server_failed_its_other_ranks_are_left_alone_too(failure: Failure, left: int) -> None:
    ranks = EngineId("a-1_dp0"), EngineId("a-1_dp1")
    decode = Decode(settings(attempts=1)).with_peers(*ranks).gets(an_arrival("one"))
    decode.failed(decode.only(StartCall).call, failure)

    assert len(decode.gets(an_arrival("two", chain="y")).take(StartCall)) == left


def test_a_p_that_was_busy_is_not_left_alone() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one"))
    decode.failed(decode.only(StartCall).call, Failure.BUSY)

    assert len(decode.gets(an_arrival("two", chain="y")).take(StartCall)) == 1


def test_the_requests_of_a_dead_p_do_not_all_go_to_one_other() -> None:
    decode = Decode().with_peers(A)
    for number in range(20):
        decode.gets(an_arrival(f"r{number}", chain=f"c{number}"))
    decode.commands()
    decode.asking.table([a_peer(engine) for engine in (A, B, C)], decode.now)
    decode.asking.peer_reachable(B)
    decode.asking.peer_reachable(C)

    decode.asking.peer_unreachable(A, decode.now)

    asked = [call.engine for call in decode.take(StartCall)]
    assert sorted(asked) == [B] * 10 + [C] * 10


def test_the_end_of_a_request_closes_its_call() -> None:
    decode = Decode().with_peers(A).gets(an_arrival())
    call = decode.only(StartCall).call

    assert decode.ends().commands() == [CancelCall(call)]
    assert decode.asking.next_due() is None


def test_identical_prompts_make_one_call_which_outlives_the_first_of_them() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one")).gets(an_arrival("two"))
    call, *wants = decode.commands()
    assert isinstance(call, StartCall)
    assert [want.request for want in wants if isinstance(want, WantFrom)] == ["one", "two"]

    assert decode.ends("one").commands() == []
    decode.answered(call.call)

    assert decode.commands() == [Prefilled(RequestId("two"), A, None, Seconds(0.0))]
    assert (decode.asking.tally.shared, decode.asking.tally.promoted) == (1, 1)


def test_the_next_call_is_made_for_the_promoted_request() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival("one")).gets(an_arrival("two"))
    call, *_ = decode.take(StartCall)

    decode.ends("one").failed(call.call)

    again, want = decode.commands()
    assert isinstance(again, StartCall)
    assert isinstance(want, WantFrom)
    assert (again.arrival.request, want.request) == ("two", "two")


def test_the_call_is_closed_when_the_last_of_them_has_left() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one")).gets(an_arrival("two"))
    call, *_ = decode.take(StartCall)

    assert decode.ends("one").ends("two").commands() == [CancelCall(call.call)]


def test_a_conversation_goes_to_the_p_it_was_at() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival("one"))
    first = decode.only(StartCall)
    decode.answered(first.call).ends("one", tokens=1_100)
    other = ({A, B} - {first.engine}).pop()
    decode.asking.peer_load(first.engine, 1_500)

    second = decode.gets(an_arrival("two", tokens=1_500)).only(StartCall)

    assert second.engine == first.engine != other
    assert decode.asking.tally.calls[How.CONTINUITY] == 1


def test_a_conversation_whose_p_vanished_goes_elsewhere() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival("one"))
    first = decode.only(StartCall)
    decode.answered(first.call).ends("one")
    other = ({A, B} - {first.engine}).pop()

    decode.asking.table([a_peer(other)], decode.now)

    assert decode.gets(an_arrival("two", tokens=1_500)).only(StartCall).engine == other
    assert decode.asking.tally.calls[How.CONTINUITY] == 0


def test_a_p_that_ended_is_not_known_to_have_anything_any_more() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one"))
    decode.answered(decode.only(StartCall).call).ends("one")

    decode.asking.table([], decode.now)
    decode.asking.peer_gone(A, decode.now)
    decode.asking.table([a_peer(A)], decode.now)
    decode.commands()

    decode.gets(an_arrival("two", tokens=1_200), held_blocks=68)
    assert decode.commands() == [ComputeLocally(RequestId("two"), LocalReason.FEW_MISSING, None)]


def test_a_p_that_is_listed_again_is_known_to_have_what_it_had() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival("one"))
    first = decode.only(StartCall)
    decode.answered(first.call).ends("one")

    decode.asking.table([], decode.now)
    decode.asking.table([a_peer(A), a_peer(B)], decode.now)

    assert decode.gets(an_arrival("two", tokens=1_500)).only(StartCall).engine == first.engine
    assert decode.asking.tally.calls[How.CONTINUITY] == 1


def test_a_turn_that_is_computed_here_names_the_p_of_its_conversation_and_keeps_it() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one"))
    decode.answered(decode.only(StartCall).call).ends("one", tokens=1_100)
    decode.commands()

    decode.gets(an_arrival("two", tokens=1_200), held_blocks=68)
    assert decode.commands() == [ComputeLocally(RequestId("two"), LocalReason.FEW_MISSING, A)]
    decode.ends("two", tokens=1_600)

    decode.gets(an_arrival("three", tokens=1_650), held_blocks=100)
    assert decode.commands() == [ComputeLocally(RequestId("three"), LocalReason.FEW_MISSING, A)]


def test_a_draining_p_ends_what_it_does_and_gets_nothing_new() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one"))
    call = decode.only(StartCall).call

    decode.asking.table([a_peer(A, state=EngineState.DRAINING)], decode.now)
    assert decode.commands() == []
    assert decode.gets(an_arrival("two", chain="y")).take(StartCall) == []

    decode.answered(call)
    assert decode.only(Prefilled).request == "one"


def test_a_p_that_leaves_the_table_amid_a_call_brings_it_to_its_end() -> None:
    decode = Decode().with_peers(A).gets(an_arrival("one"))
    call = decode.only(StartCall).call

    decode.asking.table([], decode.now)

    assert decode.commands() == []
    assert decode.gets(an_arrival("two", chain="y")).take(StartCall) == []
    decode.answered(call)
    assert decode.only(Prefilled).request == "one"


def test_a_p_that_ends_amid_a_call_is_replaced() -> None:
    decode = Decode().with_peers(A).gets(an_arrival())
    call = decode.only(StartCall).call

    decode.asking.table([], decode.now)
    decode.asking.peer_gone(A, decode.now)

    assert decode.commands() == [CancelCall(call), ComputeLocally(R, LocalReason.ALL_FAILED, None)]


def test_a_long_unknown_prompt_is_sent_where_most_of_it_is() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival(tokens=6_000))
    query = decode.only(SendQuery)
    assert (query.engines, query.hashes) == ((A, B), names(374))

    decode.asking.have(query.query, A, 10, decode.now)
    decode.asking.have(query.query, B, 200, decode.now)

    assert decode.only(StartCall).engine == B


def test_a_follower_that_comes_while_looking_around_gets_its_p_with_the_leader() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival("one", tokens=6_000)).gets(an_arrival("two", tokens=6_000))
    assert len(decode.take(SendQuery)) == 1

    decode.after(SETTINGS.query_patience)

    assert [want.request for want in decode.take(WantFrom)] == ["one", "two"]


def test_a_p_that_says_nobody_computes_it_is_replaced_but_not_for_what_an_earlier_one_said() -> None:
    decode = Decode().with_peers(A, B).gets(an_arrival())
    first = decode.only(StartCall)

    decode.asking.unserved(R, first.engine, decode.now)
    second = decode.only(StartCall)
    decode.asking.unserved(R, first.engine, decode.now)

    assert second.engine != first.engine
    assert decode.commands() == []
    assert decode.asking.tally.failures == {Failure.UNSERVED: 1}


def test_a_p_that_names_an_adapters_blocks_otherwise_is_asked_for_all_but_that_adapter() -> None:
    decode = Decode().with_peers(A).gets(an_arrival(lora="moved"))
    decode.asking.unserved(R, decode.only(StartCall).engine, decode.now)
    assert decode.only(ComputeLocally).why is LocalReason.ALL_FAILED

    for number, lora in enumerate((None, "poet", "moved")):
        decode.gets(an_arrival(f"later-{number}", chain=f"later-{number}", lora=lora))

    assert [call.arrival.lora for call in decode.take(StartCall)] == [None, "poet"]
    decode.after(SETTINGS.rest).gets(an_arrival("last", chain="last", lora="moved"))
    assert decode.only(StartCall).arrival.lora == "moved"


def test_a_p_that_computes_nothing_without_an_adapter_is_asked_for_nothing() -> None:
    decode = Decode().with_peers(A).gets(an_arrival())
    decode.asking.unserved(R, decode.only(StartCall).engine, decode.now)
    decode.commands()

    decode.gets(an_arrival("later", chain="y", lora="poet"))

    assert decode.only(ComputeLocally).why is LocalReason.NO_PEER


def test_a_request_that_helps_itself_hears_no_more_and_closes_its_call() -> None:
    decode = Decode().with_peers(A).gets(an_arrival())
    call = decode.only(StartCall).call

    decode.asking.helps_itself(R, decode.now)

    assert decode.commands() == [CancelCall(call)]
    assert decode.answered(call).commands() == []


def test_progress_keeps_a_p_from_being_slow() -> None:
    decode = Decode(settings(attempts=1)).with_peers(A).gets(an_arrival())
    decode.commands()
    patience = SETTINGS.patience_for(1_000)

    decode.after(patience / 2)
    decode.asking.progressed(R, decode.now)
    assert decode.after(patience - 1).commands() == []
    assert [command.why for command in decode.after(1.0).take(ComputeLocally)] == [LocalReason.ALL_FAILED]


def test_events_of_unknown_requests_are_nothing() -> None:
    decode = Decode().with_peers(A)

    decode.ends("never")
    decode.asking.progressed(R, decode.now)
    decode.asking.unserved(R, A, decode.now)
    decode.asking.helps_itself(R, decode.now)

    assert decode.commands() == []
