# SPDX-License-Identifier: Apache-2.0
"""Times at which something is due, without looking at all that is not."""

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

from tandem_connector.exchange.types import Seconds

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """At most one due time for each key."""

    def __init__(self) -> None:
        self._due: dict[Key, tuple[Seconds, int]] = {}
        self._heap: list[tuple[Seconds, int, Key]] = []
        self._order = count()

    def set(self, key: Key, due: Seconds) -> None:
        """Let `key` be due at this time, instead of any other."""
        entry = (due, next(self._order))
        self._due[key] = entry
        heapq.heappush(self._heap, (*entry, key))

    def cancel(self, key: Key) -> None:
        """Forget the key, if it is known."""
        self._due.pop(key, None)
        if not self._due:
            self._heap.clear()

    def pop_due(self, now: Seconds) -> list[Key]:
        """The keys that are due, the earliest first; they are forgotten."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            at, order, key = heapq.heappop(self._heap)
            if self._due.get(key) == (at, order):
                del self._due[key]
                due.append(key)
        return due

    def next_due(self) -> Seconds | None:
        """When the earliest key is due."""
        while self._heap:
            at, order, key = self._heap[0]
            if self._due.get(key) == (at, order):
                return at
            heapq.heappop(self._heap)
        return None

    def __contains__(self, key: Key) -> bool:
        return key in self._due
