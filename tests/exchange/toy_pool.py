# SPDX-License-Identifier: Apache-2.0
"""A block pool with ownership, eviction and contents: a block's right content is its name."""

from collections.abc import Sequence

from tandem_connector.exchange.types import BlockHash, BlockId, Derivation

GARBAGE = BlockHash(b"garbage!")
BLOCK_SIZE = 2
"""Tokens per block."""


def derived(block_hash: BlockHash) -> Derivation:
    """What the name of a chain's block is derived from, as `builders.name` makes it: `<chain>-<position>`."""
    chain, _, number = block_hash.decode().rpartition("-")
    position = int(number)
    parent = BlockHash(f"{chain}-{position - 1:06}".encode()) if position else None
    return Derivation(parent, (position, ord(chain[-1])), b"" if position else chain.encode())


class Violation(AssertionError):  # noqa: N818 - it is a verdict, not an error
    """A rule of safety was broken."""


class ToyPool:
    """Blocks are reused in the order in which they became free; a cached one keeps its name until it is reused."""

    def __init__(self, size: int, *, publishes: bool = False) -> None:
        self.publishes = publishes
        self.contents = [GARBAGE] * size
        self.references = [0] * size
        self.names: dict[BlockHash, BlockId] = {}
        self._name_of: dict[BlockId, BlockHash] = {}
        self._free: dict[BlockId, None] = {BlockId(block): None for block in range(size)}
        self.lookups = 0
        self.commits: list[tuple[BlockHash, BlockId, int]] = []
        self.published: list[tuple[BlockHash, Derivation]] = []
        self.keep_free = 0
        self.landing_share: float | None = None

    def lookup(self, block_hash: BlockHash) -> BlockId | None:
        self.lookups += 1
        return self.names.get(block_hash)

    def pin(self, blocks: Sequence[BlockId]) -> None:
        for block in blocks:
            if not self.references[block] and block not in self._name_of:
                raise Violation(f"block {block} is free and has no name, but is pinned")
            self.references[block] += 1
            self._free.pop(block, None)

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        for block in blocks:
            if not self.references[block]:
                raise Violation(f"block {block} is freed twice")
            self.references[block] -= 1
            if not self.references[block]:
                if block in self._name_of:
                    self._free[block] = None
                else:
                    self._free = {block: None, **self._free}

    def room(self, landing: int) -> int:
        if self.landing_share is not None:
            return max(0, int((len(self._free) + landing) * self.landing_share) - landing)
        return max(0, len(self._free) - self.keep_free)

    def take(self, count: int) -> tuple[BlockId, ...] | None:
        if count > len(self._free):
            return None
        taken = tuple(list(self._free)[:count])
        for block in taken:
            del self._free[block]
            if self.references[block]:
                raise Violation(f"block {block} is taken while it is referenced")
            self.references[block] = 1
            self.forget(block)
        return taken

    def commit(self, block_hash: BlockHash, block: BlockId, position: int, derivation: Derivation | None) -> bool:
        if not self.references[block]:
            raise Violation(f"block {block} is named by somebody who doesn't own it")
        if derivation is not None and (derivation != derived(block_hash) or not self.publishes):
            raise Violation(f"{block_hash!r} is said to be derived from {derivation}")
        self.commits.append((block_hash, block, position))
        if block_hash in self.names:
            return False
        self.name(block_hash, block)
        if derivation is not None:
            self.published.append((block_hash, derivation))
        return True

    def derivations(self, hashes: Sequence[BlockHash]) -> tuple[Derivation, ...] | None:
        return tuple(derived(block_hash) for block_hash in hashes)

    # -- what the engine itself does --------------------------------------------------------------------------------

    def name(self, block_hash: BlockHash, block: BlockId) -> None:
        """Put a block into the prefix cache, unless the name is there."""
        if block_hash not in self.names and block not in self._name_of:
            self.names[block_hash] = block
            self._name_of[block] = block_hash

    def forget(self, block: BlockId) -> None:
        """Take the block's name away."""
        block_hash = self._name_of.pop(block, None)
        if block_hash is not None:
            del self.names[block_hash]

    def cached(self, *hashes: BlockHash) -> tuple[BlockId, ...]:
        """Compute these blocks and leave them in the cache, referenced by nobody."""
        blocks = self.take(len(hashes))
        assert blocks is not None
        for block_hash, block in zip(hashes, blocks, strict=True):
            self.contents[block] = block_hash
            self.name(block_hash, block)
        self.unpin(blocks)
        return blocks

    def churn(self) -> None:
        """Other requests use all free blocks for other content, and leave nothing in the cache."""
        blocks = self.take(len(self._free))
        assert blocks is not None
        for block in blocks:
            self.contents[block] = GARBAGE
        self.unpin(blocks)

    def reset(self) -> bool:
        """Forget all names; only possible when nothing is referenced."""
        if any(self.references):
            return False
        for block in list(self._name_of):
            self.forget(block)
        return True

    @property
    def free(self) -> int:
        """Blocks without a reference."""
        return len(self._free)
