# SPDX-License-Identifier: Apache-2.0
"""Who waits for which block, which blocks become valid, and whether anybody will compute the others.

All look-ups go from a block to those who wait for it: a step that computes 16 blocks makes 16 look-ups, however many
thousand are awaited.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from tandem_connector.exchange.types import BlockHash, BlockId, Index, RequestId, StepId

W = TypeVar("W", bound=Hashable)


class Awaited(Generic[W]):
    """From a hash to the wants, and the places in them, that wait for it."""

    def __init__(self) -> None:
        self._waiting: dict[BlockHash, dict[tuple[W, Index], None]] = {}

    def add(self, block_hash: BlockHash, want: W, index: Index) -> None:
        """The want waits for this hash at this index."""
        self._waiting.setdefault(block_hash, {})[want, index] = None

    def discard(self, block_hash: BlockHash, want: W, index: Index) -> None:
        """It doesn't wait any more."""
        waiting = self._waiting.get(block_hash)
        if waiting is not None:
            waiting.pop((want, index), None)
            if not waiting:
                del self._waiting[block_hash]

    def of(self, block_hash: BlockHash) -> Sequence[tuple[W, Index]]:
        """Who waits for this hash, the first to come first."""
        return tuple(self._waiting.get(block_hash, ()))

    def __len__(self) -> int:
        return len(self._waiting)


class Fresh:
    """Blocks that are in the cache under their names already, but are filled only by a step in flight."""

    def __init__(self) -> None:
        self._step_of: dict[BlockId, StepId] = {}
        self._blocks_of: dict[StepId, list[BlockId]] = {}

    def add(self, step: StepId, blocks: Iterable[BlockId]) -> None:
        """These blocks are filled by this step."""
        added = self._blocks_of.setdefault(step, [])
        for block in blocks:
            self._step_of[block] = step
            added.append(block)

    def finish(self, step: StepId) -> None:
        """The step's forward pass has run, and with it those of all earlier steps."""
        for done in [known for known in self._blocks_of if known <= step]:
            for block in self._blocks_of.pop(done):
                # A block that was freed and is filled again by a later step is that step's.
                if self._step_of.get(block) == done:
                    del self._step_of[block]

    def step_of(self, block: BlockId) -> StepId | None:
        """The step that fills the block; None if it is valid."""
        return self._step_of.get(block)


class Producers:
    """How many live requests will compute each hash, or have it."""

    def __init__(self) -> None:
        self._count: dict[BlockHash, int] = {}
        self._of_request: dict[RequestId, list[BlockHash]] = {}

    def add(self, request: RequestId, hashes: Iterable[BlockHash]) -> None:
        """The request will compute these, beyond those that it was said to compute before."""
        known = self._of_request.setdefault(request, [])
        for block_hash in hashes:
            known.append(block_hash)
            self._count[block_hash] = self._count.get(block_hash, 0) + 1

    def end(self, request: RequestId) -> list[BlockHash]:
        """The request has ended; the hashes that no live request computes any more."""
        orphans = []
        for block_hash in self._of_request.pop(request, ()):
            self._count[block_hash] -= 1
            if not self._count[block_hash]:
                del self._count[block_hash]
                orphans.append(block_hash)
        return orphans

    def __contains__(self, block_hash: BlockHash) -> bool:
        return block_hash in self._count
