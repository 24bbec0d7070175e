# SPDX-License-Identifier: Apache-2.0
"""Who is to have what an engine holds when it ends.

An engine is told ahead, while nothing ends: a kubelet shows a pod that is being deleted no newer table.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Final

from tandem_connector.contract.types import EngineState, Role
from tandem_operator.api.rules import MAX_PEERS
from tandem_operator.plan.pods import EnginePod

MOST_SUCCEEDED: Final = 2
"""Engines that one is the heir of, not counting those that leave. With one each, those that are scaled down together, the last of
their StatefulSet, would name each other."""

_LOOKED_AT: Final = 120
"""Engines among which one on another node is looked for: a kubelet runs 110 pods, unless it is told otherwise."""


def heirs(
    pods: Mapping[str, EnginePod],
    kinds: Mapping[str, tuple[str, ...]],
    peers: Mapping[str, Set[str]],
    target: str | None = None,
) -> dict[str, str]:
    """By UID of each engine that has a process: the UID of its heir, if there is one.

    An heir is of the same role and kind, has a process and doesn't leave. Whoever has one keeps it; another one is named when its
    process ends, when it leaves, or when its node takes no pods any more and somebody is elsewhere. That is one on another node, as
    nodes end with all that is on them; then one that has a peer in common, since these will ask for the same conversations; then one
    that is ready; then the first of the StatefulSet, which ends last.

    An engine of another revision than the one that engines are brought to has an heir of that one, as soon as one is ready and can
    use what it holds; those that end first come first. Till then, and where there aren't enough, its heir is of its own revision.

    An engine that leaves (its pod is being deleted, or its node doesn't answer) learns nothing new: it keeps its heir as long as that
    one's process runs.

    Args:
        pods: by UID.
        kinds: by UID, what engines must have in common.
        peers: by UID, those that each is paired with.
        target: the revision that engines are brought to; None: each to its own.
    """
    alike: dict[tuple[Role, tuple[str, ...]], list[EnginePod]] = defaultdict(list)
    for pod in sorted(pods.values(), key=lambda each: (each.ordinal, each.uid)):
        if pod.exchanges and pod.peer:
            alike[pod.role, kinds[pod.uid]].append(pod)
    ranks = {pod.uid: pod.ranks for pod in pods.values()}
    return {
        uid: heir for members in alike.values() for uid, heir in _Alike(members, peers, ranks, target).decide().items()
    }


class _Alike:
    """Engines that may succeed each other."""

    def __init__(
        self, members: Sequence[EnginePod], peers: Mapping[str, Set[str]], ranks: Mapping[str, int], target: str | None
    ) -> None:
        self._members = members
        self._target = target
        self._peers = peers
        self._by_engine = {pod.peer.engine: pod for pod in members if pod.peer}
        self._staying = {pod.uid: pod for pod in members if pod.peer and pod.peer.state is not EngineState.DRAINING}
        self._is_one_revision = len({pod.revision for pod in members}) == 1
        self._found: dict[str, str] = {}
        self._succeeded: Counter[str] = Counter()
        self._known = Counter({pod.uid: sum(ranks.get(peer, 1) for peer in peers[pod.uid]) for pod in members})
        """Engines that each has to address. A pod's data-parallel ranks are as many."""

    def decide(self) -> Mapping[str, str]:
        """The heir of each, by UID."""
        present = {pod.uid: self._present(pod) for pod in self._members}
        for pod in self._members:
            heir = present[pod.uid]
            if heir and pod.uid not in self._staying and self._may_know(pod, heir):
                self._name(pod, heir)
        lacking = []
        for pod in self._staying.values():
            heir = present[pod.uid]
            if heir and self._is_as_good(pod, heir) and not heir.node_closed and self._may_take(pod, heir):
                self._name(pod, heir)
            else:
                lacking.append(pod)
        lacking = self._after_those_ahead(lacking)
        keeping = {pod.uid: heir for pod in lacking if (heir := present[pod.uid]) and heir.revision == pod.revision}
        for pod in lacking:
            heir = keeping.get(pod.uid)
            if heir and not heir.node_closed and self._may_take(pod, heir):
                self._name(pod, heir)
        on_open, on_closed = self._free(closed=False), self._free(closed=True)
        for pod in lacking:
            if pod.uid in self._found:
                continue
            heir, found = keeping.get(pod.uid), self._best(pod, on_open[pod.revision])
            if found is None and heir and self._may_take(pod, heir):
                found = heir
            found = found or self._best(pod, on_closed[pod.revision])
            if found:
                self._name(pod, found)
                if self._succeeded[found.uid] == MOST_SUCCEEDED:
                    (on_closed if found.node_closed else on_open)[found.revision].pop(found.uid, None)
        return self._found

    def _after_those_ahead(self, lacking: Sequence[EnginePod]) -> list[EnginePod]:
        """Who still lacks an heir when engines of other revisions were given those of the target, the last of their sets first."""
        if self._is_one_revision or self._target is None:
            return list(lacking)
        ahead = {uid: pod for uid, pod in self._free(closed=False)[self._target].items() if pod.ready}
        for pod in reversed(lacking):
            if pod.revision != self._target and (found := self._best(pod, ahead)):
                self._name(pod, found)
                if self._succeeded[found.uid] == MOST_SUCCEEDED:
                    del ahead[found.uid]
        return [pod for pod in lacking if pod.uid not in self._found]

    def _is_as_good(self, pod: EnginePod, heir: EnginePod) -> bool:
        """Whether the heir needn't be changed for one of the target."""
        if heir.revision == self._target:
            return True
        return heir.revision == pod.revision and (pod.revision == self._target or self._is_one_revision)

    def _present(self, pod: EnginePod) -> EnginePod | None:
        heir = pod.table.heir if pod.table else None
        found = self._by_engine.get(heir) if heir else None
        return found if found is not pod else None

    def _may_take(self, pod: EnginePod, heir: EnginePod) -> bool:
        able = heir.uid in self._staying and self._succeeded[heir.uid] < MOST_SUCCEEDED
        return able and self._may_know(pod, heir)

    def _may_know(self, pod: EnginePod, heir: EnginePod) -> bool:
        """Whether both have room for each other in their tables."""
        if self._found.get(heir.uid) == pod.uid:
            return True
        return max(self._known[pod.uid] + heir.ranks, self._known[heir.uid] + pod.ranks) <= MAX_PEERS

    def _name(self, pod: EnginePod, heir: EnginePod) -> None:
        if self._found.get(heir.uid) != pod.uid:
            self._known.update({pod.uid: heir.ranks, heir.uid: pod.ranks})
        self._found[pod.uid] = heir.uid
        if pod.uid in self._staying:
            self._succeeded[heir.uid] += 1

    def _free(self, *, closed: bool) -> Mapping[str, dict[str, EnginePod]]:
        """By revision, those that can be somebody's heir, the best first."""
        free: dict[str, dict[str, EnginePod]] = defaultdict(dict)
        for pod in sorted(self._staying.values(), key=lambda pod: not pod.ready):
            if pod.node_closed is closed and self._succeeded[pod.uid] < MOST_SUCCEEDED:
                free[pod.revision][pod.uid] = pod
        return free

    def _best(self, pod: EnginePod, free: Mapping[str, EnginePod]) -> EnginePod | None:
        beside = {other for peer in self._peers[pod.uid] for other in self._peers[peer]}
        related = sorted(free.keys() & beside, key=lambda uid: (not free[uid].ready, free[uid].ordinal, uid))
        beside_it = None
        for among in (related, free):
            for heir in islice(self._able(pod, (free[uid] for uid in among)), _LOOKED_AT):
                if heir.node is None or heir.node != pod.node:
                    return heir
                beside_it = beside_it or heir
        return beside_it

    def _able(self, pod: EnginePod, among: Iterable[EnginePod]) -> Iterable[EnginePod]:
        return (heir for heir in among if heir is not pod and self._may_know(pod, heir))
