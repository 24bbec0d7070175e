# SPDX-License-Identifier: Apache-2.0
"""Flows as two tables, of engines and of pairs."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tandem_operator.kubectl.terminal import marks
from tandem_operator.kubectl.views.amounts import bytes_words
from tandem_operator.kubectl.views.flows import EngineFlow, FlowsView
from tandem_operator.kubectl.views.pair_flows import PairFlow, most_first


def flows_tables(view: FlowsView) -> Group:
    """Who did what in the time between two looks, by the second."""
    table = Table(
        "engine", "state", "prompt tokens/s", "KV in/s", "KV out/s", "wants", "served", "wait", box=None, pad_edge=False
    )
    for each in view.engines:
        table.add_row(each.engine.pod, marks.state(each.engine.state), *_cells(each))
    wires = Table("prefill", "", "decode", "to decode/s", "to prefill/s", box=None, pad_edge=False)
    shown, others = most_first(view.pairs)
    for flow in shown:
        wires.add_row(
            flow.pair.prefill, marks.pair(flow.pair.state), flow.pair.decode, _bytes(flow.forward), _bytes(flow.reverse)
        )
    silent = (Text(f"{each.engine.pod}: {each.silent}", style="yellow") for each in view.engines if each.silent)
    unread = (Text(f"not read: {words}", style="yellow") for words in view.unread)
    return Group(table, Text(), wires, *_rest(others), *silent, *unread)


def _rest(others: Sequence[PairFlow]) -> Iterator[Text]:
    if others:
        moved = sum(each.amount for each in others)
        yield Text(f"and {len(others)} more pairs, together {bytes_words(moved)}/s; --output json has all", style="dim")


def _cells(flow: EngineFlow) -> list[str]:
    if flow.standing is None:
        return ["not read", "", "", "", "", ""]
    open_ = [str(flow.standing.wants_open), str(flow.standing.wants_served)]
    if flow.rates is None:
        return ["?", "?", "?", *open_, "?"]
    wait = "-" if flow.rates.mean_wait is None else f"{flow.rates.mean_wait * 1000:.0f} ms"
    tokens = ", ".join(f"{source} {amount:.0f}" for source, amount in flow.rates.tokens.items() if amount) or "0"
    return [tokens, _by_purpose(flow.rates.received), _by_purpose(flow.rates.written), *open_, wait]


def _by_purpose(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{purpose} {_bytes(amount)}" for purpose, amount in amounts.items() if amount) or "0"


def _bytes(amount: float | None) -> str:
    return "?" if amount is None else bytes_words(amount)
