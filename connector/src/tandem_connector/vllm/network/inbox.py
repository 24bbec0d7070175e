# SPDX-License-Identifier: Apache-2.0
"""What waits for the owner to take it: bounded, because the owner may compute for seconds without looking."""

import threading

from tandem_connector.vllm.network.events import Event


class Inbox:
    """Filled on the network's thread, emptied on the owner's."""

    def __init__(self, limit: int) -> None:
        """An empty inbox that takes messages of `limit` bytes in all."""
        self._limit = limit
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._bytes = 0
        self._news = False

    def put(self, event: Event) -> None:
        """Add what must not be lost, and can't be many: a change in a peer's life."""
        with self._lock:
            self._events.append(event)
            self._news = True

    def offer(self, event: Event, size: int) -> bool:
        """Add a message of so many bytes, if there is room. One that is lost is noticed by the exchange's pings."""
        with self._lock:
            if self._bytes + size > self._limit:
                return False
            self._bytes += size
            self._events.append(event)
            self._news = True
            return True

    def has_news(self) -> bool:
        """Whether anything was added since this was asked the last time."""
        with self._lock:
            news, self._news = self._news, False
            return news

    def take(self) -> list[Event]:
        """All that came since the last call, oldest first."""
        with self._lock:
            events, self._events, self._bytes = self._events, [], 0
            return events
