# SPDX-License-Identifier: Apache-2.0
"""Finds prefill engines for decode engines: near ones first, of these the least loaded, without a look at all of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from tandem_operator.plan.pairs import Pairs

_Place = tuple[str, ...]


class Nearest:
    """Some of the prefill engines of `pairs`, in a heap for each part of the network, by load.

    An entry whose engine has another load by now is skipped when it is come upon; `changed` brings the new one.
    """

    def __init__(self, pairs: Pairs, some: Iterable[int], most: int) -> None:
        """Of `some`, those that have less than `most` pairs are found."""
        self._pairs = pairs
        self._some = frozenset(some)
        self._most = most
        self._heaps: dict[_Place, list[tuple[int, int]]] = defaultdict(list)
        for p in self._some:
            for part in _parts(pairs.prefills[p].place):
                self._heaps[part].append((pairs.load[p], p))
        for heap in self._heaps.values():
            heapify(heap)

    def changed(self, p: int) -> None:
        """A pair of this one was made or parted."""
        if p in self._some:
            for part in _parts(self._pairs.prefills[p].place):
                heappush(self._heaps[part], (self._pairs.load[p], p))

    def to(self, d: int, below: int) -> int | None:
        """The least loaded of the nearest to `d` that aren't its own and have a load below this."""
        for part in _parts(self._pairs.decodes[d].place):
            if part in self._heaps:
                found = self._least(self._heaps[part], self._pairs.of_decode[d], below)
                if found is not None:
                    return found
        return None

    def _least(self, heap: list[tuple[int, int]], own: set[int], below: int) -> int | None:
        aside: list[tuple[int, int]] = []
        found = None
        while heap and found is None and heap[0][0] < below:
            load, p = heap[0]
            if load != self._pairs.load[p] or len(self._pairs.of_prefill[p]) >= self._most:
                heappop(heap)
            elif p in own:
                aside.append(heappop(heap))
            else:
                found = p
        for entry in aside:
            heappush(heap, entry)
        return found


def _parts(place: _Place) -> Iterator[_Place]:
    """The parts of the network that a place is in, the smallest first, the whole last."""
    return (place[:depth] for depth in range(len(place), -1, -1))
