# SPDX-License-Identifier: Apache-2.0
"""The demo's table: one row per turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from e2e.account import PoolsAccount
from e2e.conversation import Turn


@dataclass(frozen=True)
class Row:
    """A turn and what it cost."""

    turn: Turn
    account: PoolsAccount


def table_of(rows: Sequence[Row], title: str) -> Table:
    """The rows as a table for a terminal."""
    # Fits into 80 columns.
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for heading in (
        "turn",
        "prompt\ntokens",
        "P\ncomputed",
        "P had\ncached",
        "D\ncomputed",
        "D had\ncached",
        "KV\nP to D",
        "KV\nD to P",
        "first\ntoken",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, row in enumerate(rows, start=1):
        prefill, decode = row.account.prefill, row.account.decode
        table.add_row(
            str(number),
            str(row.turn.prompt_tokens),
            str(prefill.computed),
            str(prefill.cached),
            str(decode.computed),
            str(decode.cached),
            size(decode.received_bytes),
            size(prefill.received_bytes),
            f"{row.turn.seconds_to_first_token:.2f} s",
        )
    return table


def size(count: int) -> str:
    """A number of bytes for people: `0`, `812 KiB`, `1.4 MiB`."""
    if count < 1024:
        return str(count)
    if count < 1024 * 1024:
        return f"{count / 1024:.0f} KiB"
    return f"{count / 1024 / 1024:.1f} MiB"
