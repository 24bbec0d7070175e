# SPDX-License-Identifier: Apache-2.0
"""The debug log: one JSON object a line, with the time, the kind of event and its content. Off unless asked for.

Where nothing is to be written there is no journal at all (`None`), so that it costs one comparison.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

_log = logging.getLogger(__name__)
DEFAULT_LIMIT: Final = 256 << 20


class Entry(msgspec.Struct, frozen=True):
    """One line."""

    at: float
    """Seconds of the process's monotonic clock."""
    kind: str
    content: msgspec.Raw
    """JSON, for `msgspec.json.decode` with the type that the kind implies. Bytes are in base 64."""


class Journal:
    """Writes entries to a file. May be used from any thread."""

    def __init__(self, path: Path, *, limit: int = DEFAULT_LIMIT, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the file for appending.

        Args:
            path: the file; its folder must exist. What is there already is kept as `<path>.1`.
            limit: bytes after which the file becomes `<path>.1`, in place of an older one; so twice this is used.
            clock: what `at` is taken from.

        Raises:
            OSError: the file can't be written.
        """
        self._path = path
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._encoder = msgspec.json.Encoder()
        self._file: int | None = None
        self._open()

    def write(self, kind: str, content: object) -> None:
        """Add an entry.

        It never fails for want of disk: the journal then ends, and the log says so.

        Args:
            kind: what happened.
            content: anything that msgspec encodes: structs, dataclasses, enums, tuples, bytes.
        """
        line = self._encoder.encode({"at": self._clock(), "kind": kind, "content": content}) + b"\n"
        with self._lock:
            if self._file is None:
                return
            try:
                if self._size + len(line) > self._limit and self._size:
                    os.close(self._file)
                    self._open()
                os.write(self._file, line)
                self._size += len(line)
            except OSError as error:
                _log.warning("journal_ended path=%s why=%s", self._path, error)
                self._file = None

    def close(self) -> None:
        """End the file. What is written afterwards is lost."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> None:
        if self._path.exists():
            self._path.replace(previous(self._path))
        # Not buffered: the last lines before a crash are the interesting ones.
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = 0


def previous(path: Path) -> Path:
    """Where the entries before those in `path` are, if there were more than its limit."""
    return path.with_name(f"{path.name}.1")


def read_journal(path: Path) -> Iterator[Entry]:
    """The entries in a file; one that was cut off by a crash ends it.

    Raises:
        OSError: the file can't be read.
        msgspec.MsgspecError: a whole line is no entry.
    """
    decoder = msgspec.json.Decoder(Entry)
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            entry = decoder.decode(line)
            yield Entry(entry.at, entry.kind, entry.content.copy())
