# SPDX-License-Identifier: Apache-2.0
"""How the engine is, told to programs in its container by a file: to its probes, and to what waits for its end.

The programs (`probe.py`, `drain.py`) import nothing of ours, so the keys are written there again. A file, because it costs
nothing while nothing changes, and can be read whatever the engine's thread is at; its metrics need a step, and can be switched off.
"""

import json
import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)


class DrainStage(StrEnum):
    """How far an engine's end is prepared."""

    SERVING = "serving"
    """It isn't."""
    DRAINING = "draining"
    """It has requests, peers wait for it, or its successor lacks what it holds."""
    DRAINED = "drained"
    """Nothing is left to do: it may end."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the file says."""

    drain: DrainStage = DrainStage.SERVING
    unhealthy: str = ""
    """Why the engine had better not be used; empty when it is well."""
    since: float | None = None
    """From when on it is not well: this machine's monotonic clock."""

    def to_file(self) -> str:
        """The content of the file."""
        return json.dumps({"drain": self.drain, "unhealthy": self.unhealthy, "since": self.since})


class StatusFile:
    """The file, which is replaced whole. One thread."""

    def __init__(self, path: Path | None) -> None:
        """Say that all is well, whatever a process before has said. None: there is no file."""
        self._path = path
        self._status = Status()
        self._write()

    @property
    def status(self) -> Status:
        """What was said last."""
        return self._status

    def change(self, **changes: Any) -> None:
        """Say something else of these fields of `Status`."""
        status = replace(self._status, **changes)
        if status != self._status:
            self._status = status
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            fresh.write_text(self._status.to_file())
            fresh.replace(self._path)
        except OSError as error:
            _log.error("status_not_written path=%s why=%s", self._path, error)
