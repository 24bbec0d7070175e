# SPDX-License-Identifier: Apache-2.0
"""How a job is cut into transfers."""

from collections.abc import Iterator
from dataclasses import dataclass

from tandem_connector.exchange.types import BlockId, Index, Write


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """What one transfer writes of a job. The three tuples have one length, at least 1."""

    write: Write
    indices: tuple[Index, ...]
    sources: tuple[BlockId, ...]
    destinations: tuple[BlockId, ...]


def pieces_of(write: Write, blocks_per_piece: int) -> Iterator[Piece]:
    """Cut `write` into pieces of at most `blocks_per_piece` blocks, each ordered by source block.

    NIXL joins neighbours in the list into one descriptor where they are neighbours in both memories, so order is all
    that coalescing takes: blocks that a prefill took together were mostly taken in order, on both sides.
    """
    rows = sorted(zip(write.sources, write.destinations, write.indices, strict=True))
    for start in range(0, len(rows), blocks_per_piece):
        sources, destinations, indices = zip(*rows[start : start + blocks_per_piece], strict=True)
        yield Piece(write, indices, sources, destinations)
