# SPDX-License-Identifier: Apache-2.0
"""Who works with whom: the pairs of prefill and decode engines, decided from the engines that there are and the pairs that exist.

A pair costs: two engines register each other's memory, and what one knows of a conversation's blocks is with the other. So pairs that
exist are kept, and what changes is little. What is decided depends on nothing but what is given, in any order, and deciding
again changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tandem_connector.contract.types import Role
from tandem_operator.api.rules import MAX_PEERS
from tandem_operator.plan.nearest import Nearest
from tandem_operator.plan.pairs import Engine, Pair, Pairs, Standing


def pairing(
    engines: Iterable[Engine], present: Iterable[Pair], per_decode: int, most: int = MAX_PEERS
) -> frozenset[Pair]:
    """The pairs that there should be.

    Args:
        engines: of both roles. Each has a UID of its own.
        present: pairs that there are; those with engines that aren't given, or that don't fit, go.
        per_decode: how many prefill engines a decode engine has if there are so many that stay. One with a single
            prefill engine that is ready may have one more, until another one is.
        most: how many engines an engine may address at all. A pod's data-parallel ranks are as many.
    """
    kinds: dict[tuple[str, ...], list[Engine]] = defaultdict(list)
    for engine in sorted(engines, key=lambda each: each.uid):
        kinds[engine.kind].append(engine)
    kind_of = {engine.uid: kind for kind, members in kinds.items() for engine in members}
    exists: dict[tuple[str, ...], set[Pair]] = defaultdict(set)
    for pair in present:
        kind = kind_of.get(pair.prefill)
        if kind is not None and kind == kind_of.get(pair.decode):
            exists[kind].add(pair)
    return frozenset(
        pair for kind, members in kinds.items() for pair in _Kind(members, exists[kind], per_decode, most).decide()
    )


class _Kind:
    """The engines that may be paired with each other. By number: prefill engines `p`, decode engines `d`."""

    def __init__(self, engines: Sequence[Engine], present: Iterable[Pair], per_decode: int, most: int) -> None:
        self._pairs = Pairs(engines, present)
        # As if all pods of the other role had the most ranks: they have the same number, but while that is changed.
        self._most_of_prefill = _room(most, self._pairs.decodes)
        self._most_of_decode = _room(most, self._pairs.prefills)
        self._staying = self._pairs.staying(Role.PREFILL)
        self._served = self._pairs.staying(Role.DECODE)
        self._wanted = min(per_decode, len(self._staying), self._most_of_decode)
        needed, among = self._wanted * len(self._served), max(len(self._staying), 1)
        self._share = needed // among
        """Of pairs, of one prefill engine."""
        self._little = -(-3 * self._share // 4)
        """A prefill engine with less than this takes over from others."""
        self._enough = -(-needed // among) + -(-needed // (4 * among))
        """A prefill engine with so many decode engines gets no more while others have fewer, wherever they are."""
        self._shorten()
        self._asked = [p for p in self._staying if self._pairs.prefills[p].standing is Standing.READY]
        self._any, self._ready = (
            Nearest(self._pairs, some, self._most_of_prefill) for some in (self._staying, self._asked)
        )

    def decide(self) -> Iterable[Pair]:
        """The pairs that there should be."""
        self._fill()
        if self._rescue():
            self._fill()
        while self._share_out():
            self._fill()
        return self._pairs

    def _shorten(self) -> None:
        """Part what is beyond the bounds."""
        pairs = self._pairs
        for d in self._served:
            staying = [p for p in pairs.of_decode[d] if pairs.stays(p)]
            with_one_more = self._wanted + (pairs.ready[d] == 1)
            for p in self._worst(d, staying, len(staying) - with_one_more):
                pairs.part(p, d)
        for d, peers in enumerate(pairs.of_decode):
            for p in self._worst(d, peers, len(peers) - self._most_of_decode):
                pairs.part(p, d)
        for p, peers in enumerate(pairs.of_prefill):
            for d in self._spare(p)[: max(len(peers) - self._most_of_prefill, 0)]:
                pairs.part(p, d)

    def _worst(self, d: int, among: Iterable[int], count: int) -> list[int]:
        """Of these so many that `d` can best do without; never the last one that is ready."""
        if count <= 0:
            return []
        pairs = self._pairs

        def worth(p: int) -> tuple[bool, bool, bool, int, int, int]:
            crowded = pairs.load[p] > self._enough
            waits = pairs.prefills[p].standing is Standing.STARTING
            return (pairs.stays(p), not crowded, not waits, pairs.nearness(p, d), -pairs.load[p], -p)

        found: list[int] = []
        ready = pairs.ready[d]
        for p in sorted(among, key=worth):
            is_ready = pairs.prefills[p].standing is Standing.READY
            if len(found) < count and not (is_ready and ready == 1):
                found.append(p)
                ready -= is_ready
        return found

    def _spare(self, p: int) -> list[int]:
        """The decode engines of `p`, first those that leave or have others that are ready, far ones before near ones."""
        pairs = self._pairs
        itself = pairs.prefills[p].standing is Standing.READY
        return sorted(
            pairs.of_prefill[p],
            key=lambda d: (pairs.serves(d) and pairs.ready[d] <= itself, pairs.nearness(p, d), -d),
        )

    def _fill(self) -> None:
        """Give decode engines what they lack, each its first before any its second."""
        for number in range(self._wanted):
            for d in self._served:
                if self._pairs.counted[d] <= number and len(self._pairs.of_decode[d]) < self._most_of_decode:
                    self._pair_with_nearest(d)

    def _pair_with_nearest(self, d: int) -> None:
        p = None
        if not self._pairs.ready[d]:
            p = self._ready.to(d, self._enough)
        for below in (self._enough, self._most_of_prefill):
            p = self._any.to(d, below) if p is None else p
        if p is not None:
            self._pair(p, d)

    def _rescue(self) -> bool:
        """Give decode engines that have none a prefill engine that is ready, beyond what they have; whether any pair ended for it."""
        pairs, ended = self._pairs, False
        for d in self._served:
            if not self._asked or pairs.ready[d]:
                continue
            p = self._ready.to(d, self._enough)
            p = self._ready.to(d, self._most_of_prefill) if p is None else p
            if p is None:
                p = self._take_from_others()
                if p is None:
                    # All are with those that have no other.
                    break
                ended = True
            for other in self._worst(d, pairs.of_decode[d], len(pairs.of_decode[d]) + 1 - self._most_of_decode):
                self._part(other, d)
                ended = True
            self._pair(p, d)
        return ended

    def _take_from_others(self) -> int | None:
        """A prefill engine that is ready, and is now parted from somebody who has another, or who leaves."""
        pairs = self._pairs
        spare = (
            (pairs.serves(d), pairs.ready[d], p, d)
            for p in self._asked
            for d in pairs.of_prefill[p]
            if pairs.ready[d] > 1 or not pairs.serves(d)
        )
        found = max(spare, default=None)
        if found is None:
            return None
        _, _, p, d = found
        self._part(p, d)
        return p

    def _share_out(self) -> bool:
        """Let those that have much less than their share take over from those that have more; whether any did."""
        loads, moved = self._pairs.load, False
        donors: list[int] = []
        for p in sorted(self._asked, key=lambda each: (loads[each], each)):
            while loads[p] < self._little:
                # The most loaded first. Sorting them anew is cheap: hardly any has moved.
                donors = sorted(donors or self._staying, key=lambda each: (-loads[each], each))
                if not self._take_over(p, donors):
                    break
                moved = True
        return moved

    def _take_over(self, p: int, donors: Sequence[int]) -> bool:
        pairs = self._pairs
        if len(pairs.of_prefill[p]) >= self._most_of_prefill:
            return False
        for donor in donors:
            if pairs.load[donor] <= self._share:
                break
            # Whoever has one more than is wanted would lose it if another one of its own were ready.
            is_ready = pairs.prefills[donor].standing is Standing.READY
            free = [
                d
                for d in pairs.of_prefill[donor] - pairs.of_prefill[p]
                if pairs.serves(d) and (is_ready or pairs.counted[d] <= self._wanted)
            ]
            if free:
                d = max(free, key=lambda each: (pairs.nearness(p, each) - pairs.nearness(donor, each), -each))
                self._part(donor, d)
                self._pair(p, d)
                return True
        return False

    def _pair(self, p: int, d: int) -> None:
        self._pairs.pair(p, d)
        self._tell(p)

    def _part(self, p: int, d: int) -> None:
        self._pairs.part(p, d)
        self._tell(p)

    def _tell(self, p: int) -> None:
        self._any.changed(p)
        self._ready.changed(p)


def _room(most: int, others: Iterable[Engine]) -> int:
    """For how many pods of the others there is room; one at least."""
    return max(1, most // max((engine.ranks for engine in others), default=1))
