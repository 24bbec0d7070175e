# SPDX-License-Identifier: Apache-2.0
"""How long the writer sleeps between two looks at NIXL.

Without NIXL's own progress thread, which spins a core, UCX moves data only while someone calls it. The writer calls it
often while data moves, ever more seldom while it waits, and hardly ever when nothing can come.
"""

from dataclasses import dataclass
from enum import Enum, auto


class Activity(Enum):
    """What the writer waits for."""

    IDLE = auto()
    """Nothing."""
    EXPECTING = auto()
    """A peer's write, which may take as long as a prefill."""
    MOVING = auto()
    """A transfer that is posted, or an event on the device."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two polls."""

    fastest: float = 50e-6
    """When the last poll moved something; about what the kernel's timers can do."""
    moving: float = 1e-3
    """Longest in `Activity.MOVING`. TCP's socket buffers take more than the data of 1 ms on a 10 Gbit/s link."""
    expecting: float = 10e-3
    """Longest in `Activity.EXPECTING`."""
    expecting_share: float = 1 / 64
    """And beyond `moving` no longer than this part of what was waited already: how much later a wait may end by it."""
    idle: float = 1.0
    """In `Activity.IDLE`: UCX notices closed connections only when it is called. Commands interrupt the sleep."""


class Pacing:
    """Doubles the interval with every poll that moved nothing, from the fastest to the longest of the activity.

    In a wait for a peer the longest grows with the wait, so that a short one ends in time and a long one costs little CPU.
    """

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._current = intervals.fastest
        self._waited = 0.0

    def after_poll(self, activity: Activity, *, moved: bool) -> float:
        """Seconds until the next poll, at most; a command may come earlier.

        Args:
            activity: what is waited for now.
            moved: whether the poll that just ended moved data, posted, or completed something.
        """
        if activity is Activity.IDLE:
            self._current, self._waited = self._intervals.fastest, 0.0
            return self._intervals.idle
        now = self._intervals.fastest if moved else min(self._current, self._longest(activity))
        self._waited = now if moved else self._waited + now
        self._current = min(2 * now, self._longest(activity))
        return now

    def _longest(self, activity: Activity) -> float:
        of = self._intervals
        if activity is Activity.MOVING:
            return of.moving
        return max(of.moving, min(of.expecting, of.expecting_share * self._waited))
