# SPDX-License-Identifier: Apache-2.0
"""The demo's tables: what each turn computed and moved, of one way to run the model or of several."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from e2e.demo.held import HeldConversation, Row


def table_of(rows: Sequence[Row], title: str) -> Table:
    """One row per turn, for a terminal of 80 columns."""
    table = _empty(
        title,
        *("turn", "prompt\ntokens", "P\ncomputed", "P had\ncached", "D\ncomputed", "D had\ncached"),
        *("KV\nP to D", "KV\nD to P", "first\ntoken"),
    )
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
            seconds(row.turn.seconds_to_first_token),
        )
    return table


def comparison_of(conversations: Sequence[HeldConversation], title: str) -> Table:
    """For each turn a row per conversation, for a terminal of 80 columns.

    Args:
        conversations: over the same script, so that they have the same turns.
        title: shown above.
    """
    table = _empty(
        title,
        *("turn", "prompt\ntokens", "", "computed\nby P", "\nby D", "\nsum"),
        *("KV\nP to D", "KV\nD to P", "first\ntoken"),
    )
    table.columns[2].justify = "left"
    turns = zip(*(conversation.rows for conversation in conversations), strict=True)
    for number, rows in enumerate(turns, start=1):
        for place, (conversation, row) in enumerate(zip(conversations, rows, strict=True)):
            prefill, decode = row.account.prefill, row.account.decode
            alone = conversation.one_engine
            table.add_row(
                "" if place else str(number),
                str(row.turn.prompt_tokens),
                conversation.way,
                "" if alone else str(prefill.computed),
                "" if alone else str(decode.computed),
                str(row.computed),
                "" if alone else size(decode.received_bytes),
                "" if alone else size(prefill.received_bytes),
                seconds(row.turn.seconds_to_first_token),
                end_section=place == len(conversations) - 1,
            )
    return table


def size(count: int) -> str:
    """A number of bytes for people: `0`, `812 KiB`, `1.4 MiB`, `18 MiB`."""
    if count < 1024:
        return str(count)
    if count < 1024 * 1024:
        return f"{count / 1024:.0f} KiB"
    mebibytes = count / 1024 / 1024
    return f"{mebibytes:.1f} MiB" if mebibytes < 9.95 else f"{mebibytes:.0f} MiB"


def seconds(duration: float) -> str:
    """A duration for people: `0.24 s`, `10.5 s`."""
    return f"{duration:.2f} s" if duration < 9.995 else f"{duration:.1f} s"


def _empty(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
