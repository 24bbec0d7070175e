# SPDX-License-Identifier: Apache-2.0
"""Blocks that wants hold, each counted once: what one peer didn't deliver is wanted of the next one, at the same place."""

from collections import Counter
from collections.abc import Iterable

from tandem_connector.exchange.types import BlockId


class Held:
    """How many different blocks are held."""

    def __init__(self) -> None:
        self._wants: Counter[BlockId] = Counter()

    def add(self, blocks: Iterable[BlockId]) -> None:
        """One more want holds these."""
        self._wants.update(blocks)

    def remove(self, blocks: Iterable[BlockId]) -> None:
        """One of those that hold these doesn't any more."""
        for block in blocks:
            self._wants[block] -= 1
            if not self._wants[block]:
                del self._wants[block]

    def __len__(self) -> int:
        return len(self._wants)
