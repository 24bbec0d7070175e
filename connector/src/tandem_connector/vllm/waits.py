# SPDX-License-Identifier: Apache-2.0
"""How long an empty step sleeps while some request waits for something of vLLM's own.

Nobody rings when a grammar is compiled or another request's blocks are free: vLLM looks at every step. Each look costs a
step on all ranks, so they become rarer the longer nothing happens.
"""

from typing import Final

SHORTEST: Final = 0.003
"""Seconds; the first sleep after something happened."""
LONGEST: Final = 0.05
"""Seconds; what is looked for may be found this much later."""


class Waits:
    """Twice as long each time, until something happens."""

    def __init__(self) -> None:
        self._next = SHORTEST

    def happened(self) -> None:
        """A step computed, a request came or somebody rang."""
        self._next = SHORTEST

    def take(self) -> float:
        """How many seconds to sleep now, at most."""
        now = self._next
        self._next = min(2 * now, LONGEST)
        return now
