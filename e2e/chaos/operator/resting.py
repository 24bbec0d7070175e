# SPDX-License-Identifier: Apache-2.0
"""When all is as it was before a fault, but for what the fault has taken away."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Self

from e2e.chaos.operator.snapshot import Snapshot


@dataclass(frozen=True)
class Rest:
    """All is as it should be."""

    at: float
    """Seconds of the monotonic clock, when it was first seen to be."""
    snapshot: Snapshot


@dataclass(frozen=True)
class Standing:
    """What there is when nothing happens, and has to be again."""

    resources: Mapping[str, str]
    """UIDs by name; an empty one where any will do."""
    engines: Mapping[str, int]
    """How many engines each resource has."""
    children: Mapping[str, frozenset[str]]
    """Kinds and names of what else belongs to each resource."""
    restarts: Mapping[str, int]
    """By the UID of each engine's pod."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """As it is now."""
        return cls(
            {name: resource["metadata"]["uid"] for name, resource in snapshot.resources.items()},
            {name: len(pods) for name, pods in snapshot.engines.items()},
            _names(snapshot),
            snapshot.restarts(),
        )

    @classmethod
    def wanted(cls, resources: Iterable[Mapping[str, Any]]) -> Self:
        """As these are asked for."""
        engines = {
            each["metadata"]["name"]: sum(each["spec"][role]["replicas"] for role in ("prefill", "decode"))
            for each in resources
        }
        return cls(dict.fromkeys(engines, ""), engines, {}, {})

    def lacks(self, snapshot: Snapshot) -> Iterator[str]:
        """What isn't there again, or is too much, in words."""
        for name in self.resources.keys() - snapshot.resources.keys():
            yield f"the resource {name} is missing"
        for name, count in self.engines.items():
            if (there := len(snapshot.engines.get(name, ()))) != count:
                yield f"{name} has {there} engines of {count}"
        there_now = _names(snapshot)
        for name, children in self.children.items():
            yield from (
                f"{child} of {name} is missing" for child in sorted(children - there_now.get(name, frozenset()))
            )

    def missed(self, snapshot: Snapshot, removed: Set[str]) -> tuple[list[str], list[str]]:
        """Resources that were lost, and engines' pods that were replaced or restarted, though no fault removed them."""
        now = {name: resource["metadata"]["uid"] for name, resource in snapshot.resources.items()}
        lost = [name for name, uid in self.resources.items() if uid not in removed and now.get(name) != uid]
        restarts = snapshot.restarts()
        changed = [uid for uid, count in self.restarts.items() if uid not in removed and restarts.get(uid) != count]
        return lost, changed


def _names(snapshot: Snapshot) -> dict[str, frozenset[str]]:
    # What has a generated name may be made anew under another one.
    return {
        name: frozenset(
            f"{each['kind']} {each['metadata']['name']}" for each in children if each["kind"] != "ControllerRevision"
        )
        for name, children in snapshot.children.items()
    }
