# SPDX-License-Identifier: Apache-2.0
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.kubectl.views.pair_flows import Wire, told


def test_an_engine_with_one_pair_tells_what_went_over_it() -> None:
    star = [Wire("p", "d0"), Wire("p", "d1")]
    assert told(star, {"p": 30}, {"d0": 10, "d1": 20}) == {star[0]: 10, star[1]: 20}


def test_it_is_told_by_whichever_end_was_read() -> None:
    only = Wire("p", "d")
    assert told([only], {"p": 7}, {"d": None}) == {only: 7}
    assert told([only], {"p": None}, {"d": 9}) == {only: 9}
    assert told([only], {"p": None}, {"d": None}) == {only: None}


def test_between_many_that_all_moved_something_it_cannot_be_told() -> None:
    mesh = [Wire(*ends) for ends in product(("p0", "p1"), ("d0", "d1"))]
    assert set(told(mesh, {"p0": 5, "p1": 5}, {"d0": 5, "d1": 5}).values()) == {None}


def test_ends_that_moved_nothing_leave_the_rest_to_the_others() -> None:
    mesh = [Wire(*ends) for ends in product(("p0", "p1"), ("d0", "d1"))]
    over = told(mesh, {"p0": 8, "p1": 0}, {"d0": 3, "d1": 5})
    assert over == {Wire("p0", "d0"): 3, Wire("p0", "d1"): 5, Wire("p1", "d0"): 0, Wire("p1", "d1"): 0}


def test_ends_that_were_read_a_moment_apart_and_contradict_each_other_tell_nothing() -> None:
    only = Wire("p", "d")
    assert told([only], {"p": 0}, {"d": 5}) == {only: None}


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.data(),
)
def test_what_is_told_is_what_went_over_it(senders: int, receivers: int, data: st.DataObject) -> None:
    wires = [Wire(f"s{i}", f"r{j}") for i, j in product(range(senders), range(receivers))]
    truth = {wire: float(data.draw(st.integers(0, 3))) for wire in wires}
    written: dict[str, float | None] = {}
    received: dict[str, float | None] = {}
    for wire, moved in truth.items():
        written[wire.sender] = (written.get(wire.sender) or 0) + moved
        received[wire.receiver] = (received.get(wire.receiver) or 0) + moved
    for unread in data.draw(st.sets(st.sampled_from(sorted({*written, *received})))):
        (written if unread in written else received)[unread] = None

    for wire, amount in told(wires, written, received).items():
        assert amount in (None, truth[wire])
