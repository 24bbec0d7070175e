# SPDX-License-Identifier: Apache-2.0
"""What a content of the peer table's file means: a change, or nothing at all. The last good table is kept."""

import logging
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from tandem_connector.contract.peers import Peer, PeerTable
from tandem_connector.contract.types import EngineId

_log = logging.getLogger(__name__)
MAX_BYTES: Final = 1 << 20
"""Longest content that is looked at: more than all annotations of an object may have together (256 KiB)."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a new table says that the last one didn't."""

    table: PeerTable
    added: tuple[Peer, ...]
    removed: tuple[Peer, ...]
    changed: tuple[Peer, ...]
    """As they are now: same engine, but something about it, like its state."""


@dataclass(slots=True)
class TableCounts:
    """Contents of the file since the engine began, each counted once. All only grow; read from any thread."""

    accepted: int = 0
    malformed: int = 0
    """Not a table, or one that contradicts itself."""
    stale: int = 0
    """Of a generation below the one that is known."""
    conflicting: int = 0
    """Of the known generation, but with another content."""
    unreadable: int = 0
    """The file is gone, or can't be read."""
    failed: int = 0
    """Who was told of the change failed."""

    @property
    def refused(self) -> int:
        """All that were not taken up."""
        return self.malformed + self.stale + self.conflicting + self.unreadable + self.failed


class TableReader:
    """Decides what a content of the file means. Keeps the last good table whatever comes."""

    def __init__(self) -> None:
        self.table: PeerTable | None = None
        self.counts = TableCounts()
        self._last: bytes | None = None

    def read(self, content: bytes) -> TableChange | None:
        """The change that the content makes; None if it makes none, or is not acceptable."""
        if content == self._last:
            return None
        self._last = content
        if not content.strip():
            # An annotation that nobody has written yet makes an empty file.
            if self.table is not None:
                self._malformed("it is empty")
            return None
        try:
            table = _table(content)
        except ValueError as error:
            self._malformed(str(error))
            return None
        return self._accept(table)

    def unreadable(self, why: str) -> None:
        """The file couldn't be read."""
        if self._last is not None:
            self._last = None
            self.counts.unreadable += 1
            _log.warning("peer_table_unreadable why=%s", why)

    def _accept(self, table: PeerTable) -> TableChange | None:
        known = self.table
        if known is not None and table.generation < known.generation:
            self.counts.stale += 1
            _log.warning("peer_table_stale generation=%d known=%d", table.generation, known.generation)
            return None
        if known is not None and table.generation == known.generation:
            if table.digest != known.digest:
                self.counts.conflicting += 1
                _log.error(
                    "peer_table_conflicting generation=%d digest=%s known=%s",
                    table.generation,
                    table.digest,
                    known.digest,
                )
            return None
        self.table = table
        self.counts.accepted += 1
        return _change(known, table)

    def _malformed(self, why: str) -> None:
        self.counts.malformed += 1
        _log.error("peer_table_malformed why=%s", why)


def _table(content: bytes) -> PeerTable:
    """The table in the content.

    Raises:
        ValueError: what is wrong, in one line.
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES} bytes")
    try:
        table = PeerTable.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'content'}: {first['msg']}") from error
    if len({peer.engine for peer in table.peers}) != len(table.peers):
        raise ValueError("an engine is in it twice")
    if table.digest != (digest := PeerTable.digest_of(table.peers, table.drain, table.gone, table.heir)):
        raise ValueError(f"its digest is {table.digest}, that of its content {digest}")
    return table


def _change(before: PeerTable | None, after: PeerTable) -> TableChange:
    old: dict[EngineId, Peer] = {} if before is None else {peer.engine: peer for peer in before.peers}
    new = {peer.engine: peer for peer in after.peers}
    return TableChange(
        table=after,
        added=tuple(peer for engine, peer in new.items() if engine not in old),
        removed=tuple(peer for engine, peer in old.items() if engine not in new),
        changed=tuple(peer for engine, peer in new.items() if engine in old and old[engine] != peer),
    )
