# SPDX-License-Identifier: Apache-2.0
"""The file by which a preStop hook tells the engine that its container is to end (`drain.py`)."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tandem_connector.contract.environment import DRAIN_MARK

_EVERY: Final = 0.25
"""Seconds between two looks."""


def mark_of(status_file: Path) -> Path:
    """Where the mark is, given the engine's status file."""
    return status_file.with_name(f"{status_file.name}{DRAIN_MARK}")


class DrainMark:
    """Looks for the file on a thread of its own, until it is there."""

    def __init__(self, path: Path, found: Callable[[], None]) -> None:
        """A mark that is there already was for the process before, and is removed.

        Args:
            path: of the mark.
            found: called once, on the looking thread.
        """
        path.unlink(missing_ok=True)
        self._path = path
        self._found = found
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tandem-drain", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_EVERY):
            if self._path.exists():
                self._found()
                return
