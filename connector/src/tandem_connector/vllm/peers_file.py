# SPDX-License-Identifier: Apache-2.0
"""The peer table as it changes on disk.

The file lies in a volume that Kubernetes fills from an annotation: `peers.json` is a link to `..data/peers.json`, and
`..data` a link to a folder; a new content is a new folder, into which `..data` is renamed (kubelet's AtomicWriter). So
it is the folder that is watched, not the file.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import watchfiles

from tandem_connector.contract.peers import PeerTable
from tandem_connector.vllm.peer_table import MAX_BYTES, TableChange, TableCounts, TableReader

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeersFileSettings:
    """Times in seconds."""

    step: float = 0.05
    """Without a further change, after which a change is noticed. It is asked in steps as long, so that it takes one to two of them."""
    reread: float = 2.0
    """After which the file is read in any case: a change may come before the notifications begin, or one may be lost."""
    poll: float = 1.0
    """Between two looks when the system gives no notifications (no inotify instance is left, for example)."""


class PeersFile:
    """Watches the file on a thread of its own."""

    def __init__(
        self,
        path: Path,
        on_change: Callable[[TableChange], None],
        *,
        on_refused: Callable[[], None] | None = None,
        settings: PeersFileSettings | None = None,
    ) -> None:
        """Start to watch. The file need not exist.

        Args:
            path: the peer table.
            on_change: called on the watching thread with each change, one after another; the first has all peers.
            on_refused: called on the same thread after each content that was counted and not taken up.
            settings: other times than the defaults.
        """
        self._path = path
        self._on_change = on_change
        self._on_refused = on_refused
        self._settings = settings or PeersFileSettings()
        self._reader = TableReader()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tandem-peers", daemon=True)
        self._thread.start()

    @property
    def table(self) -> PeerTable | None:
        """The last good table; None before the first."""
        return self._reader.table

    @property
    def counts(self) -> TableCounts:
        """What has become of the contents until now."""
        return self._reader.counts

    def close(self) -> None:
        """Stop to watch, and wait for the thread."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        said = ""
        while not self._closing.is_set():
            try:
                self._watch()
            except (OSError, RuntimeError) as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning("peer_table_polled path=%s why=%s", self._path, said)
                self._look()
                self._closing.wait(self._settings.poll)

    def _watch(self) -> None:
        """Read at each change in the folder, until `close`.

        Raises:
            OSError: there are no notifications: no such folder, or the system has none to give.
            RuntimeError: the same, by watchfiles' own name.
        """
        changes = watchfiles.watch(
            self._path.parent,
            watch_filter=None,
            step=_ms(self._settings.step),
            rust_timeout=_ms(self._settings.reread),
            yield_on_timeout=True,
            stop_event=self._closing,
            recursive=False,
            raise_interrupt=False,
        )
        self._look()
        for _ in changes:
            self._look()

    def _look(self) -> None:
        before = self._reader.counts.refused
        self._read()
        if self._on_refused is not None and self._reader.counts.refused != before:
            self._on_refused()

    def _read(self) -> None:
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._reader.unreadable(str(error))
            return
        change = self._reader.read(content)
        if change is None:
            return
        _log.info(
            "peer_table_read generation=%d peers=%d added=%d removed=%d changed=%d",
            change.table.generation,
            len(change.table.peers),
            len(change.added),
            len(change.removed),
            len(change.changed),
        )
        try:
            self._on_change(change)
        except Exception:
            # The next table must still be read.
            self._reader.counts.failed += 1
            _log.exception("peer_table_not_taken generation=%d", change.table.generation)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
