# SPDX-License-Identifier: Apache-2.0
"""What waits for the owner to take it: bounded, because the owner may compute for seconds without looking."""

import threading
from collections import deque

from tandem_connector.vllm.network.events import Event


class Inbox:
    """Filled on the network's thread, emptied on the owner's."""

    def __init__(self, limit: int, at_once: int) -> None:
        """An empty inbox that takes messages of `limit` bytes in all, and gives `at_once` bytes at one time."""
        self._limit = limit
        self._at_once = at_once
        self._lock = threading.Lock()
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._news = False

    def put(self, event: Event) -> None:
        """Add what must not be lost, and can't be many: a change in a peer's life."""
        with self._lock:
            self._events.append((event, 0))
            self._news = True

    def offer(self, event: Event, size: int) -> bool:
        """Add a message of so many bytes, if there is room. One that is lost is noticed by the exchange's pings."""
        with self._lock:
            if self._bytes + size > self._limit:
                return False
            self._bytes += size
            self._events.append((event, size))
            self._news = True
            return True

    def has_news(self) -> bool:
        """Whether anything was added since this was asked the last time."""
        with self._lock:
            news, self._news = self._news, False
            return news

    def take(self) -> list[Event]:
        """What came first, oldest first: no more bytes than may be given at one time, but at least one message."""
        with self._lock:
            taken: list[Event] = []
            given = 0
            while self._events and (not taken or given + self._events[0][1] <= self._at_once):
                event, size = self._events.popleft()
                taken.append(event)
                given += size
            self._bytes -= given
            return taken

    @property
    def is_empty(self) -> bool:
        """Whether `take` has nothing to give."""
        return not self._events
