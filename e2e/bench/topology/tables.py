# SPDX-License-Identifier: Apache-2.0
"""Which peer tables a change in a pod requires, and when the last of them was there.

All times are of one watch in one process: when it showed the change, and when it showed the table.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import EngineState, pod_of


class Kind(StrEnum):
    """What happened to an engine's pod."""

    READY = "ready"
    UNREADY = "unready"
    ENDING = "ending"
    """It is being deleted."""
    GONE = "gone"
    NODE_LOST = "node_lost"
    """Its node isn't ready any more."""


@dataclass(frozen=True)
class Sight:
    """One engine's pod, as the watch showed it."""

    at: float
    """Seconds of the monotonic clock."""
    resource: str
    uid: str
    ready: bool
    ending: bool = False
    exists: bool = True
    node: str = ""
    table: PeerTable | None = None


@dataclass(frozen=True)
class Change:
    """What requires tables to be written."""

    kind: Kind
    resource: str
    uid: str
    at: float
    knew: frozenset[str] = frozenset()
    """The pods whose tables had it."""


@dataclass(frozen=True)
class Told:
    """A change whose last table was seen."""

    change: Change
    at: float
    generations: Mapping[str, int]
    """By UID, those whose table was written since the change: the generation of it."""

    @property
    def seconds(self) -> float:
        """From the sight of the change to the sight of the last table."""
        return self.at - self.change.at


@dataclass
class Matching:
    """Finds changes in what the watch shows, and the tables that they required."""

    told: list[Told] = field(default_factory=list)
    pending: list[Change] = field(default_factory=list)
    silent: int = 0
    """Changes of which nobody had to be told."""
    _pods: dict[str, dict[str, Sight]] = field(default_factory=lambda: defaultdict(dict))
    _written: dict[str, float] = field(default_factory=dict)
    """By UID, when its table was last seen to change."""

    def see(self, sight: Sight) -> None:
        """Take notice of a pod."""
        pods = self._pods[sight.resource]
        before = pods.get(sight.uid)
        if before is None or before.table != sight.table:
            self._written[sight.uid] = sight.at
        if sight.exists:
            pods[sight.uid] = sight
        else:
            pods.pop(sight.uid, None)
            self._written.pop(sight.uid, None)
        for kind in _kinds(before, sight):
            self._begin(kind, sight.resource, sight.uid, sight.at)
        self._settle(sight.resource, sight.at)

    def lose_node(self, node: str, at: float) -> int:
        """Take notice that a node isn't ready any more; on how many pods of engines that are ready it bears."""
        lost = [pod for pods in self._pods.values() for pod in pods.values() if pod.node == node and pod.ready]
        for pod in lost:
            self._begin(Kind.NODE_LOST, pod.resource, pod.uid, at)
        for resource in {pod.resource for pod in lost}:
            self._settle(resource, at)
        return len(lost)

    def is_settled(self, resource: str) -> bool:
        """Whether nobody of it is still to be told of anything."""
        return all(change.resource != resource for change in self.pending)

    def pods(self, resource: str) -> Mapping[str, Sight]:
        """Its pods, by UID."""
        return self._pods[resource]

    def resources(self) -> list[str]:
        """All that have pods."""
        return sorted(name for name, pods in self._pods.items() if pods)

    def _begin(self, kind: Kind, resource: str, uid: str, at: float) -> None:
        knew = frozenset(other for other, table in self._tables(resource) if uid in _listed(table))
        change = Change(kind, resource, uid, at, knew)
        # What comes later makes what came before moot: nobody learns of a readiness that has passed.
        self.pending = [each for each in self.pending if each.uid != uid]
        if self._is_told(change):
            self.silent += 1
        else:
            self.pending.append(change)

    def _settle(self, resource: str, at: float) -> None:
        for change in [each for each in self.pending if each.resource == resource]:
            if self._is_told(change):
                self.pending.remove(change)
                written = {
                    uid: int(table.generation)
                    for uid, table in self._tables(resource)
                    if self._written.get(uid, change.at) > change.at
                }
                self.told.append(Told(change, at, written))

    def _is_told(self, change: Change) -> bool:
        tables = dict(self._tables(change.resource))
        others = [table for uid, table in tables.items() if uid != change.uid]
        states = {peer.state for table in others for peer in table.peers if pod_of(peer.engine) == change.uid}
        match change.kind:
            case Kind.READY:
                own = tables.get(change.uid)
                return own is not None and _know_each_other(change.uid, own, tables) and states == {EngineState.READY}
            case Kind.GONE:
                named = all(change.uid in tables[uid].gone for uid in change.knew if uid in tables)
                return not states and named
            case Kind.UNREADY | Kind.ENDING | Kind.NODE_LOST:
                return EngineState.READY not in states

    def _tables(self, resource: str) -> Iterator[tuple[str, PeerTable]]:
        for uid, pod in self._pods[resource].items():
            if pod.table is not None:
                yield uid, pod.table


def _kinds(before: Sight | None, now: Sight) -> Iterator[Kind]:
    """What has happened between two sights of a pod."""
    if not now.exists:
        if before is not None:
            yield Kind.GONE
    elif now.ending:
        if before is None or not before.ending:
            yield Kind.ENDING
    elif now.ready and not (before and before.ready):
        yield Kind.READY
    elif before and before.ready and not now.ready:
        yield Kind.UNREADY


def _know_each_other(uid: str, own: PeerTable, tables: Mapping[str, PeerTable]) -> bool:
    """Whether it has a partner, and all that it knows know it."""
    listed = _listed(own)
    return bool(listed) and all(other in tables and uid in _listed(tables[other]) for other in listed)


def _listed(table: PeerTable) -> frozenset[str]:
    return frozenset(pod_of(peer.engine) for peer in table.peers)
