# SPDX-License-Identifier: Apache-2.0
"""What a soak calls wrong, lost or leaked, and what it says at the end."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from e2e.exchange.likeness import TIE
from e2e.soak.expected import Expected
from e2e.soak.faults import HEAVY, Kind, faults
from e2e.soak.rest import MORE_FILES, MORE_MEMORY, MORE_THREADS, Footprint
from e2e.soak.run import Plan
from e2e.soak.strikes import bad_tables
from e2e.soak.tally import End, Tally
from tandem_connector.contract.peers import Address, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role
from tandem_connector.vllm.peer_table import TableReader


def an_answer(*margins: float) -> Expected:
    """One of the tokens ` a`, ` b` and so on, each so much more probable than the next best."""
    tokens = [f" {chr(ord('a') + place)}" for place in range(len(margins))]
    choice: dict[str, Any] = {
        "text": "".join(tokens),
        "token_ids": list(range(len(tokens))),
        "logprobs": {
            "tokens": tokens,
            "top_logprobs": [
                {token: -0.1, "other": -0.1 - margin} for token, margin in zip(tokens, margins, strict=True)
            ],
        },
    }
    return Expected.of(choice)


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    return Tally(tmp_path / "events.log")


def test_without_ties_only_the_same_text_is_right() -> None:
    answer = an_answer(1.0, 1.0, 1.0)
    assert answer.allows(" a b c")
    assert not any(answer.allows(text) for text in (" a b", " a b x", " a b c d", " x b c", ""))


def test_from_a_tie_on_any_text_is_right() -> None:
    answer = an_answer(1.0, TIE / 2, 1.0)
    assert all(answer.allows(text) for text in (" a b c", " a x y", " a x"))
    assert not any(answer.allows(text) for text in (" x b c", " a", ""))


def test_what_had_come_when_a_stream_ended_early_must_be_a_beginning() -> None:
    answer = an_answer(1.0, 1.0, TIE / 2, 1.0)
    assert all(answer.begins_with(text) for text in ("", " a", " a b", " a b c", " a b x"))
    assert not any(answer.begins_with(text) for text in (" x", " a x", " b"))


@pytest.mark.parametrize("end", [End.WRONG, End.BROKEN, End.HUNG])
def test_one_answer_that_must_not_be_spoils_the_run(tally: Tally, end: End, capsys: pytest.CaptureFixture[str]) -> None:
    tally.ended(End.RIGHT, 1.0, "one")
    assert tally.good
    tally.ended(end, 1.0, "another, for this reason")
    assert not tally.good
    assert f"figure soak_{end} 1 answers" in tally.figures()
    assert "for this reason" in tally.log.read_text()
    assert "for this reason" in capsys.readouterr().err


def test_clients_that_hang_up_and_engines_that_are_ended_spoil_nothing(tally: Tally) -> None:
    for end in (End.ABORTED, End.CUT):
        tally.ended(end, 500.0, "one")
    tally.fault("kill_prefill", "p0")
    assert tally.good
    figures = tally.figures()
    assert {f"figure soak_{name} 0 answers" for name in ("wrong", "broken", "hung")} < set(figures)
    assert {"figure soak_turns 2 turns", "figure soak_faults_kill_prefill 1 faults"} < set(figures)
    assert "figure soak_longest_answer 0.0 s" in figures


def test_an_engine_may_grow_a_little_and_no_more() -> None:
    before = Footprint(memory=1_000, threads=50, files=100)
    bounds = (MORE_MEMORY, MORE_THREADS, MORE_FILES)
    assert Footprint(1_000 + bounds[0], 50 + bounds[1], 100 + bounds[2]).grown(before) is None
    assert Footprint(1_001 + bounds[0], 50, 100).grown(before) == f"memory (MiB) from 1000 to {1_001 + bounds[0]}"
    assert Footprint(1_000, 51 + bounds[1], 100).grown(before) == f"threads from 50 to {51 + bounds[1]}"
    assert Footprint(1_000, 50, 101 + bounds[2]).grown(before) == f"files from 100 to {101 + bounds[2]}"


def test_memory_is_not_held_against_an_engine_that_may_still_meet_steps_of_new_sizes() -> None:
    grown = Footprint(memory=9_000, threads=51 + MORE_THREADS, files=100)
    assert grown.grown(Footprint(1_000, 50, 100), weighed=False) == f"threads from 50 to {51 + MORE_THREADS}"


def test_the_memory_of_those_that_live_through_a_long_run_is_weighed() -> None:
    assert Plan(seed=1, minutes=60).weighed == {"p1", "d1"}
    assert Plan(seed=1, minutes=10).weighed == Plan(seed=1, minutes=60, prefill=1, decode=1).weighed == frozenset()


def test_a_seed_gives_the_same_faults_and_another_one_others() -> None:
    one, again, other = (list(islice(faults(seed, 5.0), 200)) for seed in (7, 7, 8))
    assert one == again != other


def test_every_kind_of_fault_comes_and_few_are_heavy() -> None:
    drawn = list(islice(faults(1, 5.0), 2_000))
    assert {fault.kind for fault in drawn} == set(Kind)
    assert {fault.role for fault in drawn if fault.kind is Kind.HTTP} == {Role.PREFILL}
    assert 0.05 < sum(fault.kind in HEAVY for fault in drawn) / len(drawn) < 0.15
    assert 4.0 < sum(fault.pause for fault in drawn) / len(drawn) < 6.0


def test_no_bad_table_is_followed() -> None:
    table = PeerTable.of(Generation(5), (a_peer("one"), a_peer("two")))
    contents = bad_tables(table)
    for content in contents:
        reader = TableReader()
        assert reader.read(table.to_annotation().encode()) is not None
        if content is not None:
            assert reader.read(content.encode()) is None
        assert reader.table == table
    assert len(set(contents)) == len(contents)


def a_peer(name: str) -> Peer:
    return Peer(
        engine=EngineId(f"{name}-1"),
        pod=name,
        role=Role.PREFILL,
        state=EngineState.READY,
        address=Address(host="127.0.0.1", http_port=1, side_channel_port=2),
        parallelism=Parallelism(tensor=1),
        revision="same",
    )
