# SPDX-License-Identifier: Apache-2.0
"""What is being waited for, and for how long: one live line on a terminal, a line every ten seconds elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO, TypeVar

from e2e.cluster.interface import GaveUpError

T = TypeVar("T")

LINE_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


class Progress:
    """Shows that something is under way. Nothing is shown of what ends well within a moment."""

    def __init__(self, what: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._clock = clock
        self._live = self._stream.isatty()
        self._began = self._shown = clock()
        self._silent = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind or not self._silent:
            stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
            self._write("stopped" if stopped else "failed" if kind else "done", last=True)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began

    def update(self, detail: str = "") -> None:
        """Show where it stands. May be called as often as one likes."""
        now = self._clock()
        if now - self._shown >= (0.2 if self._live else LINE_EVERY):
            self._shown = now
            self._write(detail, last=False)

    def _write(self, detail: str, *, last: bool) -> None:
        self._silent = False
        text = f"{self._what} ({self.elapsed:.0f} s)" + (f": {detail}" if detail else "")
        if self._live:
            # Carriage return and "erase to the end of the line", so that a shorter text leaves no rest of a longer one.
            self._stream.write(f"\r{text}\x1b[K" + ("\n" if last else ""))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


def wait_until(
    what: str, condition: Callable[[], T | None], timeout: float, *, every: float = 0.2, stream: TextIO | None = None
) -> T:
    """The first value of `condition` that is neither None nor false, asked for `every` so many seconds.

    Args:
        what: Shown while waiting and named in the error; "the API server to answer".
        condition: May raise to end the wait early.
        timeout: Seconds.
        every: Seconds between two questions.
        stream: Where progress goes; standard error by default.

    Raises:
        GaveUpError: The time was over.
    """
    with Progress(f"waiting for {what}", stream) as progress:
        while True:
            if value := condition():
                return value
            if progress.elapsed > timeout:
                raise GaveUpError(f"gave up waiting for {what} after {timeout:.0f} s")
            progress.update()
            time.sleep(every)
