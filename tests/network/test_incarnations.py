# SPDX-License-Identifier: Apache-2.0
"""From the peer table's names of engines to those that the processes give themselves."""

import pytest

from tandem_connector.contract.types import EngineId
from tandem_connector.vllm.incarnations import Incarnations
from tests.network.tables import a_peer

POD = "0a1b-2c3d"
LISTED = EngineId(f"{POD}-0.20260101T000000Z")
RESTARTED = EngineId(f"{POD}-1.20260101T000500Z")
FIRST, SECOND = EngineId(f"{POD}-11111111"), EngineId(f"{POD}-22222222")
OTHER = EngineId("ffff-33333333")


def listing(*names: EngineId, ranks: int = 1) -> Incarnations:
    incarnations = Incarnations()
    incarnations.table([a_peer(name, ranks=ranks) for name in names])
    return incarnations


def rank(name: EngineId, number: int) -> EngineId:
    return EngineId(f"{name}_dp{number}")


def names(incarnations: Incarnations) -> list[EngineId]:
    return [peer.engine for peer in incarnations.peers()]


def test_an_engine_is_greeted_by_the_tables_name_until_its_process_has_answered() -> None:
    incarnations = listing(LISTED)
    assert (list(incarnations.greeted()), names(incarnations)) == ([LISTED], [LISTED])
    assert incarnations.answered(LISTED, FIRST)
    assert (list(incarnations.greeted()), names(incarnations)) == ([FIRST], [FIRST])
    assert incarnations.greeted()[FIRST].address == a_peer(LISTED).address


def test_a_name_of_the_table_stands_for_the_process_that_answered_last() -> None:
    incarnations = listing(LISTED)
    assert incarnations.counterpart(LISTED, None) == LISTED
    incarnations.answered(LISTED, FIRST)
    assert incarnations.counterpart(LISTED, None) == FIRST


def test_another_process_that_answers_takes_the_place_of_the_one_before() -> None:
    incarnations = listing(LISTED)
    incarnations.answered(LISTED, FIRST)
    assert incarnations.answered(FIRST, SECOND)
    assert list(incarnations.greeted()) == names(incarnations) == [SECOND]


def test_a_process_is_kept_under_a_new_name_until_another_one_answers_to_it() -> None:
    incarnations = listing(LISTED)
    incarnations.answered(LISTED, FIRST)
    incarnations.table([a_peer(RESTARTED)])
    assert set(incarnations.greeted()) == {RESTARTED, FIRST}
    assert names(incarnations) == [FIRST]
    incarnations.answered(RESTARTED, SECOND)
    assert list(incarnations.greeted()) == names(incarnations) == [SECOND]


def test_a_process_that_was_known_before_the_table_told_of_it_is_not_left() -> None:
    incarnations = listing(LISTED)
    incarnations.answered(LISTED, FIRST)
    incarnations.answered(FIRST, SECOND)
    incarnations.table([a_peer(RESTARTED)])
    incarnations.answered(RESTARTED, SECOND)
    assert list(incarnations.greeted()) == [SECOND]


def test_another_pod_at_the_address_is_not_taken_for_the_one_that_had_it() -> None:
    incarnations = listing(LISTED)
    assert not incarnations.answered(LISTED, OTHER)
    assert list(incarnations.greeted()) == [LISTED]


def test_an_answer_of_an_engine_that_is_not_listed_any_more_changes_nothing() -> None:
    incarnations = listing(LISTED)
    incarnations.table([])
    assert not incarnations.answered(LISTED, FIRST)
    assert incarnations.greeted() == {}


def test_an_engine_that_is_listed_again_is_known_by_its_own_name_and_asked_for_it_again() -> None:
    incarnations = listing(LISTED)
    incarnations.answered(LISTED, FIRST)
    incarnations.table([])
    incarnations.table([a_peer(LISTED)])
    assert set(incarnations.greeted()) == {LISTED, FIRST}
    assert names(incarnations) == [FIRST]


def test_an_engine_whose_pod_is_gone_is_not_known_any_more() -> None:
    incarnations = listing(LISTED)
    incarnations.answered(LISTED, FIRST)
    incarnations.table([], gone=[POD])
    incarnations.table([a_peer(LISTED)])
    assert list(incarnations.greeted()) == [LISTED]


def test_engines_that_the_table_names_as_they_name_themselves_need_no_answer() -> None:
    incarnations = listing(FIRST, OTHER)
    assert list(incarnations.greeted()) == names(incarnations) == [FIRST, OTHER]


def test_data_parallel_ranks_are_greeted_and_known_one_by_one() -> None:
    incarnations = listing(LISTED, ranks=2)
    assert list(incarnations.greeted()) == [rank(LISTED, 0), rank(LISTED, 1)]
    assert incarnations.answered(rank(LISTED, 1), rank(FIRST, 1))
    assert names(incarnations) == [rank(LISTED, 0), rank(FIRST, 1)]
    assert incarnations.greeted()[rank(FIRST, 1)].address.side_channel_port == 5602
    assert incarnations.answered(rank(FIRST, 1), rank(SECOND, 1))
    assert names(incarnations) == [rank(LISTED, 0), rank(SECOND, 1)]


def test_a_rank_is_not_taken_for_another_one_of_its_pod() -> None:
    incarnations = listing(LISTED, ranks=2)
    assert not incarnations.answered(rank(LISTED, 1), rank(FIRST, 0))
    assert not incarnations.answered(rank(LISTED, 1), FIRST)
    assert incarnations.lists(rank(FIRST, 1))
    assert not incarnations.lists(rank(FIRST, 2))


def test_ranks_whose_pod_is_gone_are_not_known_any_more() -> None:
    incarnations = listing(LISTED, ranks=2)
    incarnations.answered(rank(LISTED, 0), rank(FIRST, 0))
    incarnations.table([], gone=[POD])
    incarnations.table([a_peer(LISTED, ranks=2)])
    assert list(incarnations.greeted()) == [rank(LISTED, 0), rank(LISTED, 1)]


@pytest.mark.parametrize(
    ("ranks", "mine", "theirs"),
    [(2, 0, 0), (2, 1, 1), (2, 5, 1), (4, 1, 1), (4, None, 0), (1, 3, None)],
)
def test_each_rank_goes_with_the_one_of_its_own_number_counted_on_from_the_first_again(
    ranks: int, mine: int | None, theirs: int | None
) -> None:
    incarnations = listing(LISTED, ranks=ranks)
    listed = LISTED if theirs is None else rank(LISTED, theirs)
    answers = FIRST if theirs is None else rank(FIRST, theirs)
    assert incarnations.counterpart(LISTED, mine) == listed
    assert incarnations.answered(listed, answers)
    assert incarnations.counterpart(LISTED, mine) == answers
