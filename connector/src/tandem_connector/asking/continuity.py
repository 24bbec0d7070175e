# SPDX-License-Identifier: Apache-2.0
"""Which P has a conversation, found by the names of its blocks: no session key is needed, and a fork is found as well."""

from collections import OrderedDict
from collections.abc import Container, Sequence

from tandem_connector.exchange.types import BlockHash, EngineId


class Continuity:
    """The last turns' block hashes and the P of each; the least recently used are forgotten."""

    def __init__(self, capacity: int, per_end: int) -> None:
        """Remember at most `capacity` hashes, `per_end` of them before each end."""
        self._capacity = capacity
        self._per_end = per_end
        self._engines: OrderedDict[BlockHash, EngineId] = OrderedDict()

    def remember(self, hashes: Sequence[BlockHash], prompt_blocks: int, engine: EngineId) -> None:
        """A turn has ended; `engine` has its blocks, or will.

        It is kept under the last blocks of the turn, and under those of the prompt: a client that strips the reasoning
        from the answer, or edits it, comes back with the prompt only.

        Args:
            hashes: of the turn's full blocks, prompt and output.
            prompt_blocks: how many of them are the prompt's.
            engine: the P.
        """
        for end in (prompt_blocks, len(hashes)):
            for block_hash in hashes[max(0, end - self._per_end) : end]:
                self._engines[block_hash] = engine
                self._engines.move_to_end(block_hash)
        while len(self._engines) > self._capacity:
            self._engines.popitem(last=False)

    def find(self, hashes: Sequence[BlockHash], usable: Container[EngineId]) -> EngineId | None:
        """The P of the deepest block of this prompt that is known to be at a usable P."""
        for block_hash in reversed(hashes):
            engine = self._engines.get(block_hash)
            if engine is not None and engine in usable:
                self._engines.move_to_end(block_hash)
                return engine
        return None

    def forget(self, engine: EngineId) -> None:
        """The engine is gone, and its cache with it."""
        for block_hash in [block_hash for block_hash, known in self._engines.items() if known == engine]:
            del self._engines[block_hash]

    def __len__(self) -> int:
        return len(self._engines)
