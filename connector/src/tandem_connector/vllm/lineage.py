# SPDX-License-Identifier: Apache-2.0
"""What the names of this engine's blocks are derived from. vLLM's block pool keeps the names only.

It is remembered only while somebody publishes KV events: this engine, or a peer that it offers blocks to.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tandem_connector.exchange.types import BlockHash, Derivation


@dataclass(frozen=True, slots=True)
class _Packed:
    """Python's own numbers take six times as much."""

    parent: BlockHash | None
    tokens: "array[int]"
    keys: bytes


class Lineage:
    """By name, bounded."""

    def __init__(self, limit: int, is_cached: Callable[[BlockHash], bool]) -> None:
        """Know nothing.

        Args:
            limit: names beyond which those that aren't cached are forgotten; more than there are blocks.
            is_cached: whether a block has the name.
        """
        self._limit = limit
        self._is_cached = is_cached
        self._known: dict[BlockHash, _Packed] = {}

    def learn(self, name: BlockHash, derivation: Derivation) -> None:
        """Remember what the name is derived from."""
        self._known[name] = _Packed(derivation.parent, array("I", derivation.tokens), derivation.keys)
        if len(self._known) > self._limit:
            self._forget()

    def of(self, hashes: Sequence[BlockHash]) -> tuple[Derivation, ...] | None:
        """What each of these is derived from; None when that isn't known of all of them."""
        packed = [self._known.get(name) for name in hashes]
        known = [each for each in packed if each is not None]
        if len(known) < len(packed):
            return None
        return tuple(Derivation(each.parent, tuple(each.tokens), each.keys) for each in known)

    def __contains__(self, name: BlockHash) -> bool:
        return name in self._known

    def _forget(self) -> None:
        """Half of what may be forgotten, the oldest: what was learned last may be of a request that waits."""
        gone = [name for name in self._known if not self._is_cached(name)]
        for name in gone[: len(gone) // 2 + 1]:
            del self._known[name]
