# SPDX-License-Identifier: Apache-2.0
"""What came of a request for verification, as a table of pairs."""

from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tandem_operator.kubectl.views.verify import Verdict, VerifyView

_MARKS: Final = {
    Verdict.SHOWN: ("✓ shown", "green"),
    Verdict.FAILED: ("✗ failed", "bold red"),
    Verdict.OPEN: ("? open", "yellow"),
    Verdict.WAITING: ("· no answer", "yellow"),
}


def verify_report(view: VerifyView) -> tuple[RenderableType, ...]:
    """A line, the pairs, and the command to go on with."""
    head = Text.assemble(
        (f"{view.namespace}/{view.name} ", "bold"),
        (view.state.value, "green" if view.is_well else "bold red"),
        f": {view.message}",
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("decode", "prefill", "result", "reason", "detail"):
        table.add_column(column, header_style="dim")
    for pair in view.pairs:
        # Engines' words may have brackets, which rich would take for its own.
        table.add_row(pair.decode, pair.prefill, _verdict(pair.verdict), pair.reason, Text(pair.detail))
    following = (Text.assemble(("next: ", "bold"), (view.next, "cyan")),) if view.next else ()
    return (head, *((table,) if view.pairs else ()), *following)


def _verdict(of: Verdict) -> Text:
    """With a sign, in its colour."""
    words, style = _MARKS[of]
    return Text(words, style=style)
