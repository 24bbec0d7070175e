# SPDX-License-Identifier: Apache-2.0
"""The tables on a terminal."""

import pytest
from rich.console import Console
from rich.table import Table

from e2e.demo.table import comparison_of, size, table_of
from tests.demo.builders import a_turn, held, held_by_one

MIB = 1024 * 1024


def shown(table: Table) -> list[str]:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_comparison_has_a_row_for_each_way_in_each_turn() -> None:
    table = comparison_of(
        [
            held(
                "Push, no reverse",
                a_turn(prefill=1714, decode=26, forward=8 * MIB, prompt=1714, first_token=1.234),
                a_turn(prefill=233, decode=5, forward=1_400_000, back=1_200_000, prompt=1917, first_token=10.5),
            ),
            held_by_one("plain vLLM", a_turn(decode=1714, prompt=1714), a_turn(decode=117, prompt=1917)),
        ],
        "title",
    )

    rows = [line.split() for line in shown(table) if line.endswith(" s")]
    assert rows == [
        ["1", "1714", "Push,", "no", "reverse", "1714", "26", "1740", "8.0", "MiB", "0", "1.23", "s"],
        ["1714", "plain", "vLLM", "1714", "0.50", "s"],
        ["2", "1917", "Push,", "no", "reverse", "233", "5", "238", "1.3", "MiB", "1.1", "MiB", "10.5", "s"],
        ["1917", "plain", "vLLM", "117", "0.50", "s"],
    ]


def test_nothing_is_cut_off_in_80_columns() -> None:
    large = a_turn(prefill=4096, decode=4096, forward=99 * MIB, back=99 * MIB, prompt=4096, first_token=99.94)

    for table in (comparison_of([held("Push, no reverse", large)], "title"), table_of([large], "title")):
        assert not [line for line in shown(table) if "…" in line]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (819_200, "800 KiB"),
        (1_400_000, "1.3 MiB"),
        (9.9 * MIB, "9.9 MiB"),
        (99 * MIB, "99 MiB"),
    ],
)
def test_bytes_are_told_in_at_most_eight_characters(count: float, text: str) -> None:
    assert size(int(count)) == text
