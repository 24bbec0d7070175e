# SPDX-License-Identifier: Apache-2.0
"""Which fault comes when: drawn from a seed, so that a run can be repeated as far as the machine's timing allows."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tandem_connector.contract.types import Role


class Kind(StrEnum):
    """What is done to an engine."""

    KILL = "kill"
    """SIGKILL; another takes its place."""
    STOP = "stop"
    """SIGTERM, with wants open; another takes its place."""
    RETIRE = "retire"
    """It drains, leaves the others' tables, and is ended only then; another takes its place."""
    NAP = "nap"
    """SIGSTOP, for less than a request's patience."""
    FREEZE = "freeze"
    """SIGSTOP, for longer than a want lives."""
    RESET = "reset"
    """Its prefix cache is reset."""
    DRAIN = "drain"
    """For a while the tables of the others say that it drains."""
    TABLE = "table"
    """Its peer table has a content that it must not follow."""
    GARBAGE = "garbage"
    """A stranger sends its exchange what is no message for it."""
    HTTP = "http"
    """Its HTTP server fails for a while."""
    BURST = "burst"
    """More long prompts than its pool holds come at once, and half of them hang up."""


HEAVY: Final = frozenset({Kind.KILL, Kind.STOP, Kind.RETIRE})
"""After these an engine starts, for a minute or more."""


@dataclass(frozen=True)
class _Drawn:
    """How often a kind is drawn, and for how long."""

    weight: int
    seconds: tuple[float, float] = (0.0, 0.0)
    roles: tuple[Role, ...] = tuple(Role)


_DRAWN: Final = {
    Kind.KILL: _Drawn(4, (0.0, 8.0)),
    Kind.STOP: _Drawn(1, (0.0, 4.0)),
    Kind.RETIRE: _Drawn(2, (0.5, 4.0)),
    Kind.NAP: _Drawn(12, (0.2, 4.0)),
    Kind.FREEZE: _Drawn(5, (9.0, 20.0)),
    Kind.RESET: _Drawn(12),
    Kind.DRAIN: _Drawn(6, (2.0, 12.0)),
    Kind.TABLE: _Drawn(10, (1.0, 8.0)),
    Kind.GARBAGE: _Drawn(10),
    Kind.HTTP: _Drawn(6, (2.0, 8.0), (Role.PREFILL,)),
    Kind.BURST: _Drawn(5, (0.5, 6.0)),
}


@dataclass(frozen=True)
class Fault:
    """One fault, and when it comes."""

    pause: float
    """Seconds since the one before."""
    kind: Kind
    role: Role
    seconds: float
    """How long it lasts, or how late the others are told, by its kind."""
    dice: int
    """For all else that is to be chosen: the engine, the content."""

    @property
    def name(self) -> str:
        """As it is counted."""
        return f"{self.kind}_{self.role}"


def faults(seed: int, pause: float) -> Iterator[Fault]:
    """Faults without end.

    Args:
        seed: the same seed, the same faults.
        pause: mean seconds between two.
    """
    chosen = random.Random(f"faults {seed}")
    while True:
        (kind,) = chosen.choices(list(_DRAWN), [drawn.weight for drawn in _DRAWN.values()])
        drawn = _DRAWN[kind]
        yield Fault(
            pause=min(chosen.expovariate(1 / pause), 4 * pause),
            kind=kind,
            role=chosen.choice(drawn.roles),
            seconds=chosen.uniform(*drawn.seconds),
            dice=chosen.getrandbits(32),
        )
