# SPDX-License-Identifier: Apache-2.0
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.kubectl.views.engine import Pair, PairState
from tandem_operator.kubectl.views.pair_flows import MOST, Counted, PairFlow, most_first, pair_flows


def a_pair(prefill: str = "p", decode: str = "d", state: PairState = PairState.SHOWN) -> Pair:
    return Pair(prefill=prefill, decode=decode, state=state)


def both_ways(counted: dict[str, Counted]) -> tuple[float | None, float | None]:
    (flow,) = pair_flows([a_pair()], counted)
    return flow.forward, flow.reverse


def test_what_arrived_is_taken_where_both_ends_tell() -> None:
    prefill = Counted(received={"d": {"reverse_push": 3, "reverse_fetch": 4}}, written={"d": {"forward": 12}})
    decode = Counted(received={"p": {"forward": 10}}, written={"p": {"reverse_push": 9}})
    assert both_ways({"p": prefill, "d": decode}) == (10, 7)


def test_an_end_that_was_not_read_or_does_not_know_the_other_yet_leaves_it_to_the_other() -> None:
    prefill = Counted(received={"d": {"reverse_push": 3}}, written={"d": {"forward": 12}})
    assert both_ways({"p": prefill}) == (12, 3)
    assert both_ways({"p": prefill, "d": Counted({}, {})}) == (12, 3)
    assert both_ways({"p": Counted({}, {}), "d": Counted({}, {})}) == (None, None)
    assert both_ways({}) == (None, None)


def test_what_is_handed_over_between_engines_of_one_role_is_of_no_pair() -> None:
    assert both_ways({"d": Counted({"p": {"forward": 1, "move": 8}}, {"p": {"move": 8}})}) == (1, 0)


AMOUNTS = st.integers(0, 5).map(float)


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_over_all_pairs_it_is_what_engines_received(prefills: int, decodes: int, data: st.DataObject) -> None:
    mesh = [(f"p{i}", f"d{j}") for i, j in product(range(prefills), range(decodes))]
    truth = {ends: (data.draw(AMOUNTS), data.draw(AMOUNTS)) for ends in mesh}
    received: dict[str, dict[str, dict[str, float]]] = {name: {} for ends in mesh for name in ends}
    for (prefill, decode), (forward, back) in truth.items():
        received[decode][prefill] = {"forward": forward}
        received[prefill][decode] = {"reverse_push": back}
    counted = {name: Counted(of_peers, {}) for name, of_peers in received.items()}
    flows = pair_flows([a_pair(*ends) for ends in mesh], counted)
    assert {(each.pair.prefill, each.pair.decode): (each.forward, each.reverse) for each in flows} == truth


def test_few_pairs_keep_their_places_and_of_many_failing_ones_come_first_and_then_those_that_most_goes_over() -> None:
    few = [PairFlow(pair=a_pair(f"p{number}"), forward=number, reverse=0) for number in range(MOST)]
    assert most_first(few) == (few, ())
    bad = PairFlow(pair=a_pair("bad", state=PairState.FAILED), forward=None, reverse=None)
    shown, others = most_first([*few, bad])
    assert [each.pair.prefill for each in shown] == ["bad", *(f"p{number}" for number in range(MOST - 1, 0, -1))]
    assert [each.pair.prefill for each in others] == ["p0"]
