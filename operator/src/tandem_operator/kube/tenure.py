# SPDX-License-Identifier: Apache-2.0
"""Until when this process may write: no longer than nobody else can have taken the Lease."""

import asyncio
from collections.abc import Callable


class Tenure:
    """The leader's, which each renewal of its Lease prolongs.

    A process that is stopped and continued, or whose event loop hangs, is told by no timer in time that its Lease has run out:
    the work that it goes on with may come first. Whether it may still write is therefore asked before each write, by the clock.

    Args:
        clock: seconds, monotonic, which go on while the process is stopped; the event loop's unless given.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._ends_at = float("-inf")

    def prolong(self, ends_at: float) -> None:
        """The Lease was renewed. `ends_at` is in seconds of the clock."""
        self._ends_at = ends_at

    def end(self) -> None:
        """It is given up, or lost."""
        self._ends_at = float("-inf")

    def holds(self) -> bool:
        """Whether this process may write now."""
        return self._clock() < self._ends_at
