# SPDX-License-Identifier: Apache-2.0
"""Data-parallel ranks in names of engines and in peer tables."""

import json

import pytest
from pydantic import ValidationError

from tandem_connector.contract.peers import MAX_RANKS, Address, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import (
    EngineId,
    EngineState,
    Generation,
    Role,
    Seat,
    engine_of_rank,
    pod_of,
    rank_of,
    seat_of,
)

POD = "0a1b-2c3d"
LISTED = EngineId(f"{POD}-0.20260101T000000Z")


def a_pod(ranks: int) -> Peer:
    return Peer(
        engine=LISTED,
        pod="qwen-prefill-0",
        role=Role.PREFILL,
        state=EngineState.READY,
        address=Address(host="10.0.0.1", http_port=8000, side_channel_port=5601),
        parallelism=Parallelism(tensor=2, data=ranks),
        revision="r",
    )


@pytest.mark.parametrize(
    ("engine", "rank"),
    [(f"{POD}-1f2e3d4c", None), (f"{POD}-1f2e3d4c_dp0", 0), (f"{POD}-1f2e3d4c_dp15", 15), (f"{POD}-1f_dp", None)],
)
def test_a_rank_is_told_by_the_end_of_the_name_that_vllm_gives_it(engine: str, rank: int | None) -> None:
    assert (pod_of(EngineId(engine)), rank_of(EngineId(engine))) == (POD, rank)
    assert seat_of(EngineId(engine)) == Seat(POD, rank)


def test_the_name_of_a_rank_is_of_the_same_pod() -> None:
    assert seat_of(engine_of_rank(LISTED, 3)) == Seat(POD, 3)


def test_a_pods_ranks_are_one_entry_and_each_an_engine_at_a_port_of_its_own() -> None:
    engines = a_pod(3).engines()
    assert [each.engine for each in engines] == [f"{LISTED}_dp{rank}" for rank in range(3)]
    assert [each.address.side_channel_port for each in engines] == [5601, 5602, 5603]
    assert {each.address.http_port for each in engines} == {8000}
    assert {each.pod for each in engines} == {"qwen-prefill-0"}


def test_a_pod_with_one_rank_is_written_as_ever_and_is_itself() -> None:
    assert a_pod(1).engines() == (a_pod(1),)
    table = PeerTable.of(Generation(1), (a_pod(1),))
    assert json.loads(table.to_annotation())["peers"][0]["parallelism"] == {"tensor": 2}
    assert PeerTable.model_validate_json(table.to_annotation()) == table


def test_a_table_with_ranks_is_read_as_it_was_written() -> None:
    table = PeerTable.of(Generation(1), (a_pod(8),))
    assert json.loads(table.to_annotation())["peers"][0]["parallelism"] == {"tensor": 2, "data": 8}
    assert PeerTable.model_validate_json(table.to_annotation()) == table
    assert table.digest != PeerTable.of(Generation(1), (a_pod(4),)).digest


@pytest.mark.parametrize("ranks", [0, MAX_RANKS + 1])
def test_a_number_of_ranks_that_nobody_could_address_is_refused(ranks: int) -> None:
    with pytest.raises(ValidationError):
        a_pod(ranks)
