# SPDX-License-Identifier: Apache-2.0
"""What a churn says of turns, engines and wants, and what makes it fail."""

from dataclasses import replace

import msgspec
import pytest

from e2e.chaos.topology.changes import Change, Kind
from e2e.chaos.topology.clients import End, Turn
from e2e.chaos.topology.expected import as_completion
from e2e.chaos.topology.journals import Journals, moved_turns
from e2e.chaos.topology.pods import Life
from e2e.chaos.topology.talks import talks
from e2e.chaos.topology.verdict import STALE_AFTER, Run
from e2e.soak.expected import Expected
from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.types import Role
from tandem_connector.vllm.journal import Entry

HERE, THERE = "0000-aaaa", "0000-bbbb"
GONE_AT = 1_000.0


def entry(kind: str, content: object, at: float = 1.0) -> Entry:
    return Entry(at, kind, msgspec.Raw(msgspec.json.encode(content)))


def a_turn(number: int, *, end: End = End.RIGHT, ended: float = 0.0) -> Turn:
    return Turn(f"churn-{number}", "session", number, 0.0, ended, end, 0, "why")


def part(
    number: int, *, prompt: int, computed: int, output: int = 10, of_prefill: bool = False, at: float = 1.0
) -> Entry:
    request = f"chatcmpl-churn-{number}-0f0f"
    request = f"cmpl-{request}-0-1e1e" if of_prefill else request
    return entry("turn", {"request": request, "prompt": prompt, "output": output, "computed": computed}, at)


def want(peer: str, at: float) -> Entry:
    return entry("commands", [("ExpectWant", {"want": 1, "peer": f"{peer}-77", "blocks": [1]})], at)


def a_life(role: Role = Role.DECODE, uid: str = THERE) -> Life:
    return Life(f"some-{role}-1", uid, role, was_ready=True, deleted=GONE_AT - 12, gone=GONE_AT, exit_code=0)


def a_run(journals: Journals | None = None) -> Run:
    """Nothing is wrong with it."""
    return Run(
        turns=[a_turn(0)],
        changes=[Change(Kind.EVICT, Role.DECODE, "some-decode-1")],
        undone=[],
        lives=[a_life(), a_life(Role.PREFILL, "0000-cccc")],
        journals=journals or Journals(),
        unsettled=None,
        settled_after=3.0,
    )


def failures(run: Run) -> list[str]:
    return [failure.partition(":")[0] for failure in run.failures()]


def figures(run: Run) -> dict[str, str]:
    return {line.split()[1].removeprefix("chaos_topology_"): line.split()[2] for line in run.figures()}


def test_a_run_in_which_all_went_well_has_no_failures() -> None:
    assert failures(a_run()) == []
    assert figures(a_run())["removal_to_gone_decode_median"] == "12.0"


@pytest.mark.parametrize("end", [End.WRONG, End.BROKEN, End.HUNG])
def test_a_turn_that_did_not_end_well_is_a_failure(end: End) -> None:
    run = replace(a_run(), turns=[a_turn(0), a_turn(1, end=end)])
    assert failures(run) == [str(end)]
    assert figures(run)[f"turns_{end}"] == "1"


def test_an_engine_that_ended_by_itself_or_by_force_is_a_failure() -> None:
    lives = [replace(a_life(), restarts=1), replace(a_life(Role.PREFILL), exit_code=137)]
    assert failures(replace(a_run(), lives=lives)) == ["crashed", "crashed"]


def test_a_run_that_showed_nothing_fails() -> None:
    assert failures(replace(a_run(), lives=[], turns=[])) == ["nothing shown"] * 3
    never_served = [replace(life, was_ready=False) for life in a_run().lives]
    assert failures(replace(a_run(), lives=never_served)) == ["nothing shown"] * 2


def test_a_change_that_could_not_be_made_is_a_failure() -> None:
    assert failures(replace(a_run(), undone=["evict some-decode-1: refused"])) == ["undone"]


def test_what_engines_do_not_know_at_the_end_is_a_failure() -> None:
    assert failures(replace(a_run(), unsettled="it is connected to 1 of 2 peers")) == ["unsettled"]


def test_a_want_of_a_peer_that_is_gone_for_long_is_a_failure_and_one_before_is_not() -> None:
    journals = Journals()
    journals.read(HERE, [want(THERE, GONE_AT - 1), want(THERE, GONE_AT + STALE_AFTER - 1), want(HERE, GONE_AT + 99)])
    assert failures(a_run(journals)) == []
    journals.read(HERE, [want(THERE, GONE_AT + STALE_AFTER + 1)])
    assert failures(a_run(journals)) == ["stale"]
    assert figures(a_run(journals))["latest_want_of_a_gone_peer"] == f"{STALE_AFTER + 1:.1f}"


def test_blocks_are_counted_by_what_they_were_written_for() -> None:
    ended = {"want": 1, "peer": "p", "purpose": "move", "written": 7, "missing": 0}
    journals = Journals()
    commands = [("ServingEnded", ended), ("MoveEnded", {"successor": "p", "offered": 7, "written": 7})]
    journals.read(HERE, [entry("commands", commands), entry("commands", [("MoveEnded", {"offered": 0, "written": 0})])])
    assert (journals.written[Purpose.MOVE], journals.moves) == (7, 1)


def test_of_a_turn_that_went_on_elsewhere_only_what_the_conversation_held_counts_as_recomputed() -> None:
    journals = Journals()
    # 96 tokens are three blocks, of which the last token has no KV: 64 are held in full blocks.
    journals.read(THERE, [part(0, prompt=80, output=16, computed=10)])
    journals.read(HERE, [part(1, prompt=200, computed=8), part(1, prompt=200, computed=150, of_prefill=True)])
    turns = [a_turn(0), a_turn(1, ended=GONE_AT)]
    (moved,) = moved_turns(turns, journals, {THERE: GONE_AT - 5}, Role.DECODE)
    assert (moved.held, moved.recomputed) == (64, 150 - (200 - 64))
    assert moved_turns(turns, journals, {THERE: GONE_AT + 5}, Role.DECODE) == []
    assert moved_turns(turns, journals, {}, Role.DECODE) == []
    again = [replace(turn, fresh=False) for turn in turns]
    assert moved_turns(again, journals, {THERE: GONE_AT - 5}, Role.DECODE) == [], "another session had said it before"


@pytest.mark.parametrize("asked", [True, False], ids=["another prefill engine", "decode alone"])
def test_a_turn_whose_prefill_engine_is_gone_counts_whoever_computes_in_its_place(*, asked: bool) -> None:
    journals = Journals()
    journals.read(THERE, [part(0, prompt=80, computed=80, of_prefill=True)])
    journals.read(HERE, [part(0, prompt=80, output=16, computed=16), part(1, prompt=200, computed=8 if asked else 180)])
    if asked:
        journals.read("0000-cccc", [part(1, prompt=200, computed=180, of_prefill=True)])
    turns = [a_turn(0), a_turn(1, ended=GONE_AT)]
    (moved,) = moved_turns(turns, journals, {THERE: GONE_AT - 5}, Role.PREFILL)
    assert (moved.held, moved.recomputed) == (64, 180 - (200 - 64))
    assert moved_turns(turns, journals, {THERE: GONE_AT - 5}, Role.DECODE) == []


def test_of_several_engines_that_had_the_same_part_in_a_turn_the_last_one_counts() -> None:
    journals = Journals()
    journals.read(HERE, [part(1, prompt=200, computed=90, of_prefill=True, at=9.0)])
    journals.read(THERE, [part(1, prompt=200, computed=20, of_prefill=True, at=3.0)])
    last = journals.part("churn-1", Role.PREFILL)
    assert last is not None
    assert last.pod == HERE
    assert journals.part("churn-1", Role.DECODE) is None


@pytest.mark.parametrize("role", Role)
def test_a_turn_at_the_same_engine_did_not_move(role: Role) -> None:
    journals = Journals()
    journals.read(HERE if role is Role.PREFILL else THERE, [part(each, prompt=80, computed=10) for each in (0, 1)])
    journals.read(THERE, [part(each, prompt=80, computed=10, of_prefill=True) for each in (0, 1)])
    assert moved_turns([a_turn(0), a_turn(1, ended=GONE_AT)], journals, {THERE: GONE_AT - 5}, role) == []


def test_a_chat_is_judged_up_to_its_first_tie() -> None:
    def token(text: str, other: float) -> dict[str, object]:
        best = [{"token": text, "logprob": -0.1}, {"token": "x", "logprob": other}]
        return {"token": text, "top_logprobs": best}

    content = [token(" a", -2.0), token(" b", -0.1001)]
    choice = {"message": {"content": " a b"}, "logprobs": {"content": content}}
    expected = Expected.of(as_completion(choice))
    assert expected.allows(" a b")
    assert expected.allows(" a x")
    assert not expected.allows(" x b")


def test_a_turn_resends_what_was_said_and_what_is_right_and_no_two_conversations_begin_alike() -> None:
    talk, other = talks(2)
    roles = [message["role"] for message in talk.messages(2, ["one", "two", "three"])]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert talk.messages(1, ["one"])[2]["content"] == "one"
    assert talk.system[:4] != other.system[:4]
    assert talks(2) == talks(9)[:2]
