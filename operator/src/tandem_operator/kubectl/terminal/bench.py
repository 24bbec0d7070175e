# SPDX-License-Identifier: Apache-2.0
"""A benchmark: a table by depth of turn, a chart, and what went wrong."""

from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tandem_operator.kubectl.views.amounts import bytes_words
from tandem_operator.kubectl.views.bench import BenchView, Depth, Spread
from tandem_operator.kubectl.views.bench_engines import EnginesDid

_WIDTH = 40
"""Characters of the chart's longest bar."""
_UNTOLD = 3
"""Engines that are named one by one: who may not read one may read none."""


def bench_report(view: BenchView) -> Group:
    """All of it."""
    return Group(_head(view), _table(view), *_chart(view.depths), *_engines(view.engines), *_problems(view))


def _head(view: BenchView) -> Text:
    plan = view.plan
    return Text.assemble(
        (f"{view.namespace}/{view.name}", "bold"),
        f"  {view.model}  {plan.conversations} conversations at once of {plan.turns} turns in {view.seconds:.1f} s, "
        f"seed {plan.seed}\n",
        (f"by {view.way}", "dim"),
    )


def _table(view: BenchView) -> Table:
    table = Table(
        *("turn", "prompt tokens", "TTFT p50", "p99", "per output token p50", "p99", "answered", "errors", "not asked"),
        box=None,
        pad_edge=False,
    )
    for each in view.depths:
        prompt = "-" if each.prompt_tokens is None else str(each.prompt_tokens)
        times = (*_times(each.first_token), *_times(each.per_output_token))
        errors = Text(str(each.errors), style="bold red" if each.errors else "")
        table.add_row(str(each.depth), prompt, *times, str(each.answered), errors, str(each.not_asked))
    return table


def _times(spread: Spread | None) -> tuple[str, str]:
    return (_milliseconds(spread.p50), _milliseconds(spread.p99)) if spread else ("-", "-")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _chart(depths: Iterable[Depth]) -> list[RenderableType]:
    measured = [(each.depth, each.first_token) for each in depths if each.first_token]
    if not measured:
        return []
    scale = _WIDTH / max(1e-9, *(spread.p99 for _, spread in measured))
    bars: list[RenderableType] = [Text("\nTTFT by turn: █ up to p50, ░ up to p99", style="dim")]
    for depth, spread in measured:
        half = max(round(spread.p50 * scale), 1)
        rest = max(round(spread.p99 * scale) - half, 0)
        bars.append(Text.assemble(f"{depth:>4} ", ("█" * half, "green"), ("░" * rest, "dim")))
    return bars


def _engines(engines: EnginesDid) -> Iterable[Text]:
    if engines.roles:
        yield Text("\nmeanwhile, by engines' own counters, others' requests among them", style="dim")
    for each in engines.roles:
        tokens = _amounts({source: str(count) for source, count in each.prompt_tokens.items()})
        received = _amounts({purpose: bytes_words(count) for purpose, count in each.received.items()})
        yield Text(f"{each.role}: prompt tokens {tokens}; KV received {received}")
    for words in engines.untold[:_UNTOLD]:
        yield Text(f"counters not told: {words}", style="yellow")
    if (more := len(engines.untold) - _UNTOLD) > 0:
        yield Text(f"counters not told: {more} engines more", style="yellow")


def _amounts(words: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in words.items()) or "none"


def _problems(view: BenchView) -> Iterable[Text]:
    for each in view.problems:
        yield Text(f"{each.turns} {'turn' if each.turns == 1 else 'turns'} failed: {each.words}", style="red")
    for words in view.notes:
        yield Text(words, style="yellow")
