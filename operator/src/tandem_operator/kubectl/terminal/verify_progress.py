# SPDX-License-Identifier: Apache-2.0
"""How far a request for verification is, on standard error: bars where it is a terminal, else a line for each pair as it answers."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tandem_operator.kubectl.views.verify import PairVerdict, Verdict, VerifyView


@contextmanager
def verify_progress() -> Iterator[Callable[[VerifyView], None]]:
    """What is to be called with each look."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines().show
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bars(progress).show


class _Lines:
    def __init__(self) -> None:
        self._said: set[str] = set()

    def show(self, view: VerifyView) -> None:
        self._say(f"request {view.request} of {view.namespace}/{view.name}")
        for pair in view.pairs:
            if pair.verdict is not Verdict.WAITING or pair.reason:
                self._say(_words(pair))

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


class _Bars:
    """One for each decode engine."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def show(self, view: VerifyView) -> None:
        by_decode: dict[str, list[PairVerdict]] = {}
        for pair in view.pairs:
            by_decode.setdefault(pair.decode, []).append(pair)
        for gone in self._tasks.keys() - by_decode.keys():
            self._progress.remove_task(self._tasks.pop(gone))
        for decode, pairs in by_decode.items():
            if decode not in self._tasks:
                self._tasks[decode] = self._progress.add_task(decode, words="")
            done = [pair for pair in pairs if pair.verdict is not Verdict.WAITING]
            bad = [pair for pair in pairs if pair.reason]
            words = f"[red]{escape(_words(bad[0]))}[/red]" if bad else ""
            self._progress.update(self._tasks[decode], total=len(pairs), completed=len(done), words=words)


def _words(pair: PairVerdict) -> str:
    why = f": {pair.reason}: {pair.detail}" if pair.reason else ""
    again = ", to be tried again" if pair.verdict is Verdict.WAITING else ""
    return f"{pair.decode} with {pair.prefill}: {pair.verdict}{again}{why}"
