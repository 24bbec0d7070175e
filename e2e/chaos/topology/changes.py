# SPDX-License-Identifier: Apache-2.0
"""Which change comes next, drawn from a seed: only what an operator of a cluster would do, so nothing of it may break an answer."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tandem_connector.contract.types import Role


class Kind(StrEnum):
    """How an engine comes or goes."""

    UP = "up"
    """`kubectl scale` to one more."""
    DOWN = "down"
    """`kubectl scale` to one less: the StatefulSet's last pod goes."""
    DELETE = "delete"
    """`kubectl delete pod`."""
    EVICT = "evict"
    """The Eviction API, as the cluster autoscaler and Karpenter use it."""
    DRAIN = "drain"
    """`kubectl drain` of the pod's node, for this pod only; the node is opened again when the pod is gone."""
    TAINT = "taint"
    """A NoExecute taint that all other pods tolerate, as before the end of a spot instance or capacity block."""

    @property
    def removes(self) -> bool:
        """Whether it takes an engine away."""
        return self is not Kind.UP


@dataclass(frozen=True)
class Seen:
    """One engine pod, as the API server tells of it."""

    name: str
    role: Role
    ready: bool
    ends: bool
    """It is being deleted."""

    @property
    def ordinal(self) -> int:
        """Its number in its StatefulSet, of which the highest goes first."""
        return int(self.name.rpartition("-")[2])


@dataclass(frozen=True)
class Change:
    """What is to be done."""

    kind: Kind
    role: Role
    pod: str
    """Which one goes; of those that come, their role's next."""


@dataclass(frozen=True)
class Bounds:
    """How many engines there may be."""

    role: int
    """Of one role, at most; at least one."""
    total: int
    """Of both roles together, at most."""


def possible(pods: Sequence[Seen], bounds: Bounds) -> list[Change]:
    """Every change that may be made now.

    One after which another ready decode engine stays, since without any there is nobody to answer; prefill may be without for a
    while. And no second one of a role while one of it ends or starts, so that a change is over before the next.
    """
    return [change for role in Role for change in _of_role(role, pods, bounds)]


def _of_role(role: Role, pods: Sequence[Seen], bounds: Bounds) -> Iterator[Change]:
    own = sorted((pod for pod in pods if pod.role is role), key=lambda pod: pod.ordinal)
    if not own or not all(pod.ready and not pod.ends for pod in own):
        return
    if len(own) < bounds.role and len(pods) < bounds.total:
        yield Change(Kind.UP, role, f"{own[-1].name.rpartition('-')[0]}-{len(own)}")
    if len(own) > 1:
        yield Change(Kind.DOWN, role, own[-1].name)
    if len(own) > 1 or role is Role.PREFILL:
        for pod in own:
            yield from (Change(kind, role, pod.name) for kind in (Kind.DELETE, Kind.EVICT, Kind.DRAIN, Kind.TAINT))


class Chooser:
    """Draws changes, kinds that were seldom first, so that a short run has some of each."""

    def __init__(self, seed: int) -> None:
        self._chosen = random.Random(f"changes {seed}")
        self._done: dict[tuple[Role, Kind], int] = {}

    def next(self, pods: Sequence[Seen], bounds: Bounds) -> Change | None:
        """One of those that are possible; None if there is none."""
        found = possible(pods, bounds)
        if not found:
            return None
        seldom = min(self._count(change) for change in found)
        change = self._chosen.choice([change for change in found if self._count(change) == seldom])
        self._done[change.role, change.kind] = seldom + 1
        return change

    def _count(self, change: Change) -> int:
        return self._done.get((change.role, change.kind), 0)
