# SPDX-License-Identifier: Apache-2.0
"""How far a benchmark is, on standard error: bars where it is a terminal, else a line for each conversation that ends."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tandem_operator.kubectl.views.bench import Turn
from tandem_operator.kubectl.views.bench_plan import Plan


@contextmanager
def bench_progress(plan: Plan) -> Iterator[Callable[[Turn], None]]:
    """What is to be called with each turn. The seed is told at once, so that an interrupted run can be repeated."""
    sys.stderr.write(f"seed {plan.seed}\n")
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda turn: _line(plan, turn)
        return
    columns = (
        TextColumn("turn {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks = {
            depth: progress.add_task(str(depth), total=plan.conversations, words="")
            for depth in range(1, plan.turns + 1)
        }
        errors: defaultdict[int, int] = defaultdict(int)

        def show(turn: Turn) -> None:
            errors[turn.depth] += turn.error is not None
            words = f"TTFT {turn.first_token:.2f} s" if turn.first_token is not None else ""
            wrong = f"[red]{errors[turn.depth]} errors[/red]" if errors[turn.depth] else ""
            progress.update(tasks[turn.depth], advance=1, words=f"{words} {wrong}".strip())

        yield show


def _line(plan: Plan, turn: Turn) -> None:
    if turn.error is not None:
        sys.stderr.write(f"conversation {turn.conversation} ended in its turn {turn.depth}: {turn.error}\n")
    elif turn.depth == plan.turns:
        sys.stderr.write(f"conversation {turn.conversation} of {plan.conversations}: {plan.turns} turns answered\n")
