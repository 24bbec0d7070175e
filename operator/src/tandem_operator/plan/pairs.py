# SPDX-License-Identifier: Apache-2.0
"""Pairs of engines, counted as they are made and parted."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from tandem_connector.contract.types import Role


class Standing(Enum):
    """What an engine is good for."""

    READY = auto()
    """It may be asked."""
    STARTING = auto()
    """It may be asked later."""
    LEAVING = auto()
    """It keeps the pairs that it has, gets none, and counts for nobody: it ends, can't be reached, or has no process now."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine to be paired."""

    uid: str
    """Of its pod."""
    role: Role
    kind: tuple[str, ...]
    """Engines are only paired with those of the same kind."""
    place: tuple[str, ...]
    """Where it is, from the zone down to its own switch; as far as is known."""
    standing: Standing
    ranks: int = 1
    """Of its pod: as many engines its peers have to address. Pairs are of whole pods."""


class Pair(NamedTuple):
    """Two engines that work with each other, by the UIDs of their pods."""

    prefill: str
    decode: str


class Pairs:
    """Pairs of engines of one kind. Engines have numbers here, in the order of their UIDs: prefill engines `p`, decode engines `d`."""

    def __init__(self, engines: Sequence[Engine], present: Iterable[Pair]) -> None:
        """These pairs; all of their engines are among `engines`, which are in the order of their UIDs."""
        self.prefills = [engine for engine in engines if engine.role is Role.PREFILL]
        self.decodes = [engine for engine in engines if engine.role is Role.DECODE]
        self.of_prefill: list[set[int]] = [set() for _ in self.prefills]
        self.of_decode: list[set[int]] = [set() for _ in self.decodes]
        self.load = [0] * len(self.prefills)
        """Decode engines that stay, of each prefill engine."""
        self.counted = [0] * len(self.decodes)
        """Prefill engines that stay, of each decode engine."""
        self.ready = [0] * len(self.decodes)
        """Of these, those that are ready."""
        p_of = {engine.uid: p for p, engine in enumerate(self.prefills)}
        d_of = {engine.uid: d for d, engine in enumerate(self.decodes)}
        for prefill, decode in present:
            if prefill in p_of and decode in d_of:
                self.pair(p_of[prefill], d_of[decode])

    def __iter__(self) -> Iterator[Pair]:
        """All pairs."""
        for p, decodes in enumerate(self.of_prefill):
            for d in decodes:
                yield Pair(self.prefills[p].uid, self.decodes[d].uid)

    def staying(self, role: Role) -> list[int]:
        """The engines of this role that don't leave."""
        engines = self.prefills if role is Role.PREFILL else self.decodes
        return [number for number, engine in enumerate(engines) if engine.standing is not Standing.LEAVING]

    def stays(self, p: int) -> bool:
        """Whether this prefill engine doesn't leave."""
        return self.prefills[p].standing is not Standing.LEAVING

    def serves(self, d: int) -> bool:
        """Whether this decode engine doesn't leave."""
        return self.decodes[d].standing is not Standing.LEAVING

    def nearness(self, p: int, d: int) -> int:
        """How much of the way down the network the two have in common."""
        common = 0
        for one, other in zip(self.prefills[p].place, self.decodes[d].place, strict=False):
            if one != other:
                break
            common += 1
        return common

    def pair(self, p: int, d: int) -> None:
        """Pair two that aren't."""
        self.of_prefill[p].add(d)
        self.of_decode[d].add(p)
        self._count(p, d, 1)

    def part(self, p: int, d: int) -> None:
        """Part two that are paired."""
        self.of_prefill[p].remove(d)
        self.of_decode[d].remove(p)
        self._count(p, d, -1)

    def _count(self, p: int, d: int, by: int) -> None:
        if self.serves(d):
            self.load[p] += by
        if self.stays(p):
            self.counted[d] += by
        if self.prefills[p].standing is Standing.READY:
            self.ready[d] += by
