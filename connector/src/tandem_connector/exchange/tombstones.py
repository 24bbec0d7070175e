# SPDX-License-Identifier: Apache-2.0
"""Which wants of a peer are over at this engine, so that none of them is ever served again.

A want that ended here must stay ended: its blocks may have other content by now. Messages can be lost, repeated and
overtake each other, so a Want may arrive after its own Cancel, or after a Ping that made this engine say that it
doesn't know it. Whatever was said to be over gets a tombstone. The wanter's ids only grow and each Ping says which is
the oldest that is not over; below that floor all is refused, and needs no tombstone.
"""

from tandem_connector.exchange.types import Index, WantId


class Tombstones:
    """The ended wants of one peer."""

    def __init__(self, limit: int, indices: int) -> None:
        """None yet; more than `limit` of them, or with more than so many missing `indices` in all, are not kept."""
        self._limit = limit
        self._most_indices = indices
        self._indices = 0
        self._floor = WantId(0)
        self._missing: dict[WantId, tuple[Index, ...] | None] = {}
        self._uncertain: set[WantId] = set()

    def covers(self, want: WantId) -> bool:
        """The want must not be served, unless it is being served already."""
        return want < self._floor or want in self._missing

    def bury(self, want: WantId, missing: tuple[Index, ...] | None, *, uncertain: bool = False) -> None:
        """The want is over; `missing` of it was not written (None: nothing was written), or may be yet (`uncertain`)."""
        if want < self._floor:
            return
        self._indices += len(missing or ()) - len(self._missing.get(want) or ())
        self._missing[want] = missing
        if uncertain:
            self._uncertain.add(want)
        while len(self._missing) > self._limit or self._indices > self._most_indices:
            # Refusing an old want that was never seen costs a recomputation; forgetting one that is over costs its wanter
            # the content of a block.
            ordered = sorted(self._missing)
            self.raise_floor(WantId(ordered[len(ordered) // 2] + 1))

    def raise_floor(self, oldest: WantId) -> None:
        """All wants below `oldest` are over."""
        if oldest > self._floor:
            self._floor = oldest
            self._missing = {want: missing for want, missing in self._missing.items() if want >= oldest}
            self._uncertain = {want for want in self._uncertain if want >= oldest}
            self._indices = sum(len(missing or ()) for missing in self._missing.values())

    def missing_of(self, want: WantId) -> tuple[Index, ...] | None:
        """What to say again of a want that is over: the indices that were not written, or None for all that weren't."""
        return self._missing.get(want)

    def is_uncertain(self, want: WantId) -> bool:
        """Whether something of it may still arrive."""
        return want in self._uncertain

    def __len__(self) -> int:
        return len(self._missing)
