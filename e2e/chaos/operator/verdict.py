# SPDX-License-Identifier: Apache-2.0
"""What a run comes to: its figures, and what of it must not be."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2e.chaos.operator.proxy import Asked

_NAMED = 3
"""Of many, so many are named."""


@dataclass(frozen=True)
class Fault:
    """One, and what was left of it."""

    name: str
    took: float
    """Seconds from its beginning until what it is made of was over."""
    settled_after: float | None
    """Seconds from then until all was as before; None: it never was."""
    problem: str | None
    """Why it could not be made, or does not show what it should."""
    unsettled: str | None
    """What wasn't as before, when it was given up."""
    ghosts: Sequence[str]
    """Peers in tables that are no pods, at that time."""
    lost: Sequence[str]
    """Resources that are gone, or others, without having been removed."""
    restarted: Sequence[str]
    """UIDs of engines' pods that are gone, or were started anew, without having been removed."""

    def said(self) -> str:
        """In one line."""
        ended = "never" if self.settled_after is None else f"after {self.settled_after:.1f} s"
        wrong = "".join(f"; {each}" for each in self.failures())
        return f"{self.name} took {self.took:.1f} s, settled {ended}{wrong}"

    def failures(self) -> Iterator[str]:
        """What must not have been, in words."""
        if self.problem is not None:
            yield self.problem
        if self.unsettled is not None:
            yield self.unsettled
        if self.ghosts:
            yield f"ghosts: {_some(self.ghosts)}"
        if self.lost:
            yield f"lost: {_some(self.lost)}"
        if self.restarted:
            yield f"engines restarted without cause: {_some(self.restarted)}"


@dataclass(frozen=True)
class Run:
    """All that was seen of it."""

    faults: Sequence[Fault]
    wanted: int
    """How many faults there were to be."""
    unleased: Sequence[Asked]
    """Writes of operators whose Lease had run out."""
    anew: int
    """How often an operator had to be started anew because it had ended, or wasn't well."""

    def failures(self) -> Iterator[str]:
        """What must not have been, in words."""
        for fault in self.faults:
            yield from (f"{fault.name}: {each}" for each in fault.failures())
        if self.unleased:
            wrong = [f"{each.method} {each.path} by {each.by}" for each in self.unleased]
            yield f"{len(wrong)} writes without a Lease: {_some(wrong)}"
        if len(self.faults) < self.wanted:
            yield f"only {len(self.faults)} faults of {self.wanted}"

    def figures(self) -> list[str]:
        """Everything that was counted and measured, one number in a line."""
        settled = [fault.settled_after for fault in self.faults if fault.settled_after is not None]
        figures = [
            ("faults", str(len(self.faults)), "faults"),
            ("kinds", str(len({fault.name for fault in self.faults})), "kinds"),
            ("longest_convergence", f"{max(settled, default=0.0):.1f}", "s"),
            ("not_converged", str(len(self.faults) - len(settled)), "faults"),
            ("ghosts", str(sum(len(fault.ghosts) for fault in self.faults)), "peers"),
            ("lost", str(sum(len(fault.lost) for fault in self.faults)), "resources"),
            ("restarted_without_cause", str(sum(len(fault.restarted) for fault in self.faults)), "engines"),
            ("writes_without_lease", str(len(self.unleased)), "requests"),
            ("operators_started_anew", str(self.anew), "times"),
        ]
        return [f"figure chaos_operator_{name} {value} {unit}" for name, value, unit in figures]


def _some(many: Sequence[str]) -> str:
    more = len(many) - _NAMED
    return ", ".join(many[:_NAMED]) + (f" and {more} more" if more > 0 else "")
