# SPDX-License-Identifier: Apache-2.0
"""What has happened: answers by how they ended, faults by kind, and what must not have been."""

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final


class End(StrEnum):
    """How one request ended."""

    RIGHT = "right"
    """The plain engine's text; up to a numeric tie, if there is one."""
    ABORTED = "aborted"
    """The client hung up."""
    CUT = "cut"
    """The engine that served it was ended."""
    WRONG = "wrong"
    """Another text."""
    BROKEN = "broken"
    """An error, or an answer without end, though its engine was not ended."""
    HUNG = "hung"
    """No answer within the bound."""


FAILURES: Final = ("wrong", "broken", "hung", "leaked", "crashed")
"""What must be 0. Leaked: something that an engine still holds at rest. Crashed: an engine that ended by itself."""


@dataclass
class Tally:
    """Counters, and the file in which each failure and each fault is written down."""

    log: Path
    ends: Counter[End] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0
    """Seconds that an answer has taken at most."""
    rests: int = 0
    """How often all was found to be given back."""

    def ended(self, end: End, seconds: float, what: str) -> None:
        """A request has ended."""
        self.ends[end] += 1
        self.note(f"{end} {seconds:.1f} s {what}")
        if end in FAILURES:
            self.failed(end, what)
        elif end is End.RIGHT:
            self.longest = max(self.longest, seconds)

    def fault(self, name: str, what: str) -> None:
        """A fault begins."""
        self.faults[name] += 1
        self.note(f"fault {name} {what}")

    def failed(self, failure: str, what: str) -> None:
        """Something has happened that must not."""
        self.failures[failure] += 1
        self.note(f"FAILURE {failure}: {what}")
        print(f"{failure}: {what}", file=sys.stderr, flush=True)

    @property
    def good(self) -> bool:
        """Whether nothing has."""
        return not self.failures

    def line(self) -> str:
        """All in one line."""
        ends = ", ".join(f"{self.ends[end]} {end}" for end in End if self.ends[end])
        return f"{ends or 'no answers'}; {self.faults.total()} faults; {self.failures.total()} failures"

    def figures(self) -> list[str]:
        """Everything that was counted, one number in a line."""
        counts = {"turns": (self.ends.total(), "turns"), "rests": (self.rests, "rests")}
        counts |= {f"{end}": (self.ends[end], "turns") for end in (End.RIGHT, End.ABORTED, End.CUT)}
        counts |= {f"faults_{name}": (count, "faults") for name, count in sorted(self.faults.items())}
        units = {"leaked": "holds", "crashed": "engines"}
        counts |= {name: (self.failures[name], units.get(name, "answers")) for name in FAILURES}
        lines = [f"figure soak_{name} {count} {unit}" for name, (count, unit) in counts.items()]
        return [*lines, f"figure soak_longest_answer {self.longest:.1f} s"]

    def note(self, text: str) -> None:
        """Write a line into the log."""
        with self.log.open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {text}\n")
