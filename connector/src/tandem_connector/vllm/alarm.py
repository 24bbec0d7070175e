# SPDX-License-Identifier: Apache-2.0
"""Wakes a sleeping engine when something is due."""

import threading
import time
from collections.abc import Callable


class Alarm:
    """One time at a time, on a thread of its own that sleeps until then."""

    def __init__(self, ring: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Start the thread; `ring` is called on it, and must return at once."""
        self._ring = ring
        self._clock = clock
        self._at: float | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="tandem-alarm", daemon=True)
        self._thread.start()

    def set(self, at: float | None) -> None:
        """Ring once at this time of the clock, instead of any other; None: not at all."""
        if at == self._at:
            return
        with self._changed:
            sooner = at is not None and (self._at is None or at < self._at)
            self._at = at
            if sooner:  # a later one is looked for when the sooner one has passed
                self._changed.notify()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                if self._at is None:
                    self._changed.wait()
                elif (left := self._at - self._clock()) > 0:
                    self._changed.wait(left)
                else:
                    self._at = None
                    self._ring()
