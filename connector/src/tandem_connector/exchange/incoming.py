# SPDX-License-Identifier: Apache-2.0
"""What is on its way to this engine, by name and by peer."""

from collections.abc import Iterable

from tandem_connector.exchange.types import BlockHash, EngineId


class Incoming:
    """Hashes that open wants ask for, and blocks that are held for what peers offered."""

    def __init__(self) -> None:
        self._hashes: dict[BlockHash, int] = {}
        self._landing: dict[EngineId, int] = {}

    def ask(self, hashes: Iterable[BlockHash]) -> None:
        """A want for these was opened."""
        for block_hash in hashes:
            self._hashes[block_hash] = self._hashes.get(block_hash, 0) + 1

    def end(self, hashes: Iterable[BlockHash]) -> None:
        """It has ended."""
        for block_hash in hashes:
            self._hashes[block_hash] -= 1
            if not self._hashes[block_hash]:
                del self._hashes[block_hash]

    def take(self, peer: EngineId, blocks: int) -> None:
        """So many blocks were taken for what the peer offered."""
        self._landing[peer] = self._landing.get(peer, 0) + blocks

    def release(self, peer: EngineId, blocks: int) -> None:
        """So many of them are given back, or in the cache."""
        self._landing[peer] -= blocks
        if not self._landing[peer]:
            del self._landing[peer]

    def landing_of(self, peer: EngineId) -> int:
        """Blocks that are held for what this peer offered."""
        return self._landing.get(peer, 0)

    @property
    def landing(self) -> int:
        """Blocks that are held for what all peers offered."""
        return sum(self._landing.values())

    def prefix(self, hashes: Iterable[BlockHash]) -> int:
        """How many of these, from the first on, open wants ask for."""
        length = 0
        for block_hash in hashes:
            if block_hash not in self._hashes:
                break
            length += 1
        return length

    def __contains__(self, block_hash: BlockHash) -> bool:
        return block_hash in self._hashes
