# SPDX-License-Identifier: Apache-2.0
"""When engines had read what they were told."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from e2e.bench.topology.tables import Told

LATE = 5.0
"""Seconds after which a table that isn't read yet was missed by the kubelet."""


class Read(NamedTuple):
    """A table that an engine has read."""

    generation: int
    at: float
    """Seconds of the monotonic clock."""


@dataclass(frozen=True)
class Reading:
    """One change, until it was read by all of the engines that are looked at and were told of it."""

    changed: float
    told: float
    """When the last table was seen."""
    read: float | None
    """When the last of these engines had read that table, or a later one; None when one never did."""


def reads(folder: Path) -> dict[str, list[Read]]:
    """What the readers wrote, by the UID of their pod. A line that isn't whole yet is left out."""
    return {path.name: [_read(line) for line in path.read_text().split("\n")[:-1]] for path in folder.iterdir()}


def readings(told: Iterable[Told], read: Mapping[str, Sequence[Read]]) -> list[Reading]:
    """Of the changes of which one of these engines had to be told, when all had read it."""
    found = []
    for each in told:
        times = [_first(read[uid], generation) for uid, generation in each.generations.items() if uid in read]
        if times:
            known = [time for time in times if time is not None]
            found.append(Reading(each.change.at, each.at, max(known) if len(known) == len(times) else None))
    return found


def _first(read: Sequence[Read], generation: int) -> float | None:
    return min((each.at for each in read if each.generation >= generation), default=None)


def _read(line: str) -> Read:
    generation, at = line.split()
    return Read(int(generation), float(at))
