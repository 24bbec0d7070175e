# SPDX-License-Identifier: Apache-2.0
"""What was read of one resource and its surroundings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tandem_operator.api.status import Condition, ConditionStatus, ConditionType
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.types import Manifest, Observed


@dataclass(frozen=True)
class Seen:
    """Read at one time."""

    observed: Observed
    events: tuple[Manifest, ...] = ()
    """Events (`events.k8s.io/v1`) of the resource's namespace."""
    unread: tuple[str, ...] = ()
    """What couldn't be read, and why; the rest is told without it."""

    @property
    def pods(self) -> tuple[EnginePod, ...]:
        """Its engine pods that haven't ended, in a fixed order."""
        return engine_pods(self.observed)

    @property
    def conditions(self) -> Mapping[str, Condition]:
        """By type."""
        status = self.observed.resource.status
        return {each.type: each for each in (status.conditions if status else ())}

    @property
    def is_current(self) -> bool:
        """Whether the operator has looked at the resource as it is now."""
        resource = self.observed.resource
        return resource.status is not None and resource.status.observed_generation >= resource.metadata.generation

    @property
    def is_ready(self) -> bool:
        """Whether the operator says so of the resource as it is now."""
        ready = self.conditions.get(ConditionType.READY)
        return self.is_current and ready is not None and ready.status is ConditionStatus.TRUE

    def warnings_of(self, kind: str, name: str) -> Sequence[Manifest]:
        """Warnings about one object, the newest first, each once."""
        about = [
            event
            for event in self.events
            if event.get("type") == "Warning"
            and (event.get("regarding") or {}).get("kind") == kind
            and (event.get("regarding") or {}).get("name") == name
        ]
        once: dict[tuple[object, object], Manifest] = {}
        for event in sorted(about, key=when, reverse=True):
            once.setdefault((event.get("reason"), event.get("note")), event)
        return tuple(once.values())


def when(event: Manifest) -> str:
    """When an event last happened, as far as it says so."""
    series = event.get("series") or {}
    metadata = event.get("metadata") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        metadata.get("creationTimestamp"),
    )
    return next((str(time) for time in times if time), "")
