# SPDX-License-Identifier: Apache-2.0
"""What went over each pair, as a matrix: a row for each decode engine, a column for each prefill engine, and sums."""

from collections.abc import Callable, Iterable, Sequence

from rich.table import Table

from tandem_operator.kubectl.views.amounts import bytes_short
from tandem_operator.kubectl.views.pair_flows import PairFlow


def pair_matrix(
    title: str,
    flows: Sequence[PairFlow],
    prefill: Sequence[str],
    decode: Sequence[str],
    amount_of: Callable[[PairFlow], float | None],
) -> Table:
    """One direction.

    Args:
        title: over the rows.
        flows: of pairs; others are left empty.
        prefill: pods, whose columns are called P0, P1 and so on.
        decode: pods, by their names.
        amount_of: the direction's bytes.
    """
    amounts = {(flow.pair.prefill, flow.pair.decode): amount_of(flow) for flow in flows}
    table = Table(title, box=None, pad_edge=False)
    for name in (*(f"P{number}" for number in range(len(prefill))), "all"):
        table.add_column(name, justify="right")
    for row in decode:
        cells = [_cell(amounts[column, row]) if (column, row) in amounts else "" for column in prefill]
        table.add_row(row, *cells, _sum(amount for (_, to), amount in amounts.items() if to == row))
    sums = (_sum(amount for (of, _), amount in amounts.items() if of == column) for column in prefill)
    table.add_row("all", *sums, _sum(amounts.values()), style="bold")
    return table


def _cell(amount: float | None) -> str:
    return "?" if amount is None else bytes_short(amount)


def _sum(amounts: Iterable[float | None]) -> str:
    """Of what is known, with a mark when that isn't all."""
    listed = list(amounts)
    return bytes_short(sum(amount or 0 for amount in listed)) + ("?" if None in listed else "")
