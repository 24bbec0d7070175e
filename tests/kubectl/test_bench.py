# SPDX-License-Identifier: Apache-2.0
"""What a benchmark says and what its turns come to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tandem_connector.contract.types import Role
from tandem_operator.kubectl.terminal.bench import bench_report
from tandem_operator.kubectl.views.bench import BenchView, Turn, depths_of, percentile, problems_of
from tandem_operator.kubectl.views.bench_engines import Asked, EnginesDid, RoleDid, engines_did
from tandem_operator.kubectl.views.bench_plan import Plan, said, session_of
from tandem_operator.kubectl.views.engine_metrics import Reading, reading
from tandem_operator.kubectl.views.flows import Silent
from tests.kubectl.builders import metrics_text


def plan(seed: int = 1, conversations: int = 2, turns: int = 3) -> Plan:
    return Plan(seed=seed, conversations=conversations, turns=turns, first_words=50, words=10, max_tokens=16)


def test_the_same_seed_says_the_same() -> None:
    assert [said(plan(), 1, turn) for turn in (1, 2, 3)] == [said(plan(), 1, turn) for turn in (1, 2, 3)]


@given(st.tuples(st.integers(), st.integers(1, 99)), st.tuples(st.integers(), st.integers(1, 99)))
def test_no_two_conversations_or_seeds_share_a_prefix(one: tuple[int, int], other: tuple[int, int]) -> None:
    beginnings = {said(plan(seed), conversation, 1)[:16] for seed, conversation in (one, other)}
    assert len(beginnings) == len({one, other})
    assert len({session_of(plan(seed), conversation) for seed, conversation in (one, other)}) == len({one, other})


def test_later_turns_differ_and_are_as_long_as_planned() -> None:
    texts = [said(plan(), 1, turn) for turn in (1, 2, 3)]
    lengths = [len(text.partition(": ")[2].split()) for text in texts]
    assert lengths == [50, 10, 10]
    assert texts[1] != texts[2]


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [([3.0], 50, 3.0), ([3.0], 99, 3.0), ([1.0, 2.0], 50, 1.0), ([4.0, 1.0, 3.0, 2.0], 99, 4.0)],
)
def test_percentiles_are_values_that_occurred(values: list[float], percent: int, found: float) -> None:
    assert percentile(values, percent) == found


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(1, 100))
def test_a_percentile_is_the_lowest_value_that_so_many_do_not_exceed(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


TURNS = (
    Turn(conversation=1, depth=1, prompt_tokens=100, output_tokens=5, first_token=0.5, per_output_token=0.01),
    Turn(conversation=2, depth=1, prompt_tokens=120, output_tokens=5, first_token=1.5, per_output_token=0.03),
    Turn(conversation=1, depth=2, first_token=0.25),
    Turn(conversation=2, depth=2, error="HTTP 503"),
)


def test_turns_are_told_by_depth_with_errors_and_what_was_not_asked() -> None:
    first, second, third = depths_of(plan(), TURNS)
    assert first.prompt_tokens == 100
    assert first.first_token is not None
    assert (first.first_token.p50, first.first_token.p99) == (0.5, 1.5)
    assert (first.answered, first.errors, first.not_asked) == (2, 0, 0)
    assert (second.answered, second.errors, second.not_asked) == (1, 1, 0)
    assert (second.prompt_tokens, second.per_output_token) == (None, None)
    assert (third.answered, third.errors, third.not_asked, third.first_token) == (0, 0, 2, None)


def view(turns: tuple[Turn, ...] = TURNS, engines: EnginesDid | None = None) -> BenchView:
    return BenchView(
        namespace="models",
        name="qwen",
        model="m",
        way="a way",
        plan=plan(),
        seconds=2.0,
        depths=depths_of(plan(), turns),
        problems=problems_of(turns),
        notes=("kubectl port-forward: lost connection to pod",),
        engines=engines or EnginesDid(roles=(), untold=()),
        turns=turns,
    )


def printed(view: BenchView) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(bench_report(view))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_report_has_a_row_and_a_bar_for_each_depth_and_each_error_once() -> None:
    lines = printed(view())
    rows = [line.split() for line in lines]
    assert ["1", "100", "500.0", "ms", "1500.0", "ms", "10.0", "ms", "30.0", "ms", "2", "0", "0"] in rows
    assert ["2", "-", "250.0", "ms", "250.0", "ms", "-", "-", "1", "1", "0"] in rows
    assert ["3", "-", "-", "-", "-", "-", "0", "0", "2"] in rows
    bars = {
        line.split()[0]: (line.count("█"), line.count("░"))
        for line in lines
        if line.lstrip()[:1].isdigit() and "█" in line
    }
    assert bars == {"1": (13, 27), "2": (7, 0)}
    assert "1 turn failed: HTTP 503" in lines
    assert "kubectl port-forward: lost connection to pod" in lines
    assert any("seed 1" in line for line in lines)


def test_a_benchmark_without_an_answer_has_a_report_too() -> None:
    failed = tuple(Turn(conversation=each, depth=1, error="no connection") for each in (1, 2))
    assert "2 turns failed: no connection" in printed(view(failed))


def test_engines_that_cannot_be_read_do_not_fill_the_report() -> None:
    did = EnginesDid(roles=(), untold=tuple(f"d-{each}: forbidden" for each in range(40)))
    lines = [line for line in printed(view(engines=did)) if line.startswith("counters not told: ")]
    assert len(lines) == 4
    assert lines[-1] == "counters not told: 37 engines more"


def told(**more: dict[str, float]) -> Reading:
    return reading(metrics_text(**more), 2.0)  # type: ignore[arg-type]


BEFORE = reading(metrics_text(tokens={"computed": 100}), 1.0)


def test_engines_counters_are_told_as_differences_by_role() -> None:
    before = {"a": Asked("d-0", Role.DECODE, BEFORE), "b": Asked("d-1", Role.DECODE, BEFORE)}
    after = {
        "a": Asked("d-0", Role.DECODE, told(tokens={"computed": 150, "forward": 7})),
        "b": Asked("d-1", Role.DECODE, told(tokens={"computed": 100}, received={"forward": 4096})),
    }
    did = engines_did(before, after)
    (role,) = did.roles
    assert role == RoleDid(role=Role.DECODE, prompt_tokens={"computed": 50, "forward": 7}, received={"forward": 4096})
    assert did.untold == ()
    lines = printed(view(engines=did))
    assert "decode: prompt tokens computed 50, forward 7; KV received forward 4 KiB" in lines


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (BEFORE, told(tokens={"computed": 5}), "d-0: its engine began anew meanwhile"),
        (Silent("forbidden"), BEFORE, "d-0: forbidden"),
        (BEFORE, Silent("no answer"), "d-0: no answer"),
        (BEFORE, None, "d-0: it wasn't there after"),
        (None, BEFORE, "d-0: it wasn't there before"),
    ],
)
def test_of_a_role_with_an_engine_that_is_untold_no_sum_is_told(
    before: Reading | Silent | None, after: Reading | Silent | None, words: str
) -> None:
    whole = told(tokens={"computed": 100})
    readings = [
        {"p": Asked("p-0", Role.PREFILL, each), "e": Asked("d-1", Role.DECODE, each)} for each in (BEFORE, whole)
    ]
    for known, one in zip(readings, (before, after), strict=True):
        if one is not None:
            known["d"] = Asked("d-0", Role.DECODE, one)
    did = engines_did(*readings)
    assert [each.role for each in did.roles] == [Role.PREFILL]
    assert did.untold == (words,)
    assert f"counters not told: {words}" in printed(view(engines=did))
