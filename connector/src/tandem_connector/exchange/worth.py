# SPDX-License-Identifier: Apache-2.0
"""Whether blocks that another engine has are worth waiting for, or are computed sooner.

Both are measured where they happen, and each as a line: a step takes some time and some more for each prompt token that it
computes; a want of what the holder has takes some time and some more for each block. Before both were measured the answer
is to wait, which is what gives the measure; so it is for many blocks when only few were moved lately, because what a peer offers
comes by one or two, in a time that says little of a hundred. A measure that nothing has renewed for a while is forgotten, so that
an engine that was slow once is asked again.
"""

import math
from dataclasses import dataclass
from typing import Final

from tandem_connector.exchange.types import Seconds

_KEEP: Final = 0.9
"""What a point still counts when the next has come: the last ten or so make the line."""
_FAR: Final = 4
"""How many times the largest of the last sizes a line reaches."""
_SAME: Final = 1e-9
"""Relative variance of sizes below which they are one size, through which many lines go."""


@dataclass(slots=True)
class _Line:
    """Seconds by size: the least-squares line with neither a negative slope nor a negative beginning."""

    age: float
    measured: Seconds | None = None
    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    largest: float = 0.0
    """Of the last sizes; an older one counts less."""

    def add(self, size: float, seconds: float, now: Seconds) -> None:
        """Something of this size took so long, and ended now."""
        keep = _KEEP if self._holds(now) else 0.0
        self.measured = now
        self.weight = keep * self.weight + 1
        self.x = keep * self.x + size
        self.y = keep * self.y + seconds
        self.xx = keep * self.xx + size * size
        self.xy = keep * self.xy + size * seconds
        self.largest = max(size, keep * self.largest)

    def reaches(self, size: float) -> bool:
        """Whether something near this size was measured."""
        return size <= _FAR * self.largest

    def at(self, size: float, now: Seconds) -> float | None:
        """How long something of this size takes; None if that was not measured lately."""
        if not self._holds(now):
            return None
        variance = self.weight * self.xx - self.x * self.x
        slope = (self.weight * self.xy - self.x * self.y) / variance if variance > _SAME * self.x * self.x else math.inf
        if slope < 0:
            return self.y / self.weight
        beginning = (self.y - slope * self.x) / self.weight
        return beginning + slope * size if beginning > 0 else self.xy / self.xx * size

    def _holds(self, now: Seconds) -> bool:
        return self.measured is not None and now - self.measured < self.age


class Worth:
    """Of one engine."""

    def __init__(self, block_size: int, age: Seconds) -> None:
        """Nothing is measured.

        Args:
            block_size: tokens per block.
            age: seconds after which a measure that wasn't renewed is forgotten; 0: nothing is ever measured.
        """
        self._block_size = block_size
        self._computing = _Line(age)
        self._moving = _Line(age)

    def computed(self, tokens: int, seconds: float, now: Seconds) -> None:
        """A step that computed so many prompt tokens, at least one, took so long."""
        self._computing.add(tokens, seconds, now)

    def moved(self, blocks: int, seconds: float, now: Seconds) -> None:
        """A want of so many blocks, at least one, that the holder had, took so long until it ended."""
        self._moving.add(blocks, seconds, now)

    def patience(self, blocks: int, now: Seconds) -> float:
        """How many seconds to wait at most for so many blocks that another engine has.

        0 if they are likely to be computed before they come; else as long as computing them takes, so that a wait in vain
        costs no more than once again as much. Infinite before there is a measure of about so many.
        """
        computing = self._computing.at(blocks * self._block_size, now)
        moving = self._moving.at(blocks, now)
        if computing is None or moving is None or not self._moving.reaches(blocks):
            return math.inf
        return computing if moving <= computing else 0.0
