# SPDX-License-Identifier: Apache-2.0
"""What the operator measures of each resource: its status as numbers, for dashboards and alerts.

Only the leader has any, so that a replica that was replaced doesn't go on telling what it last saw. The labels aren't called
`namespace` and `name`, because Prometheus has a `namespace` of its own for the operator's pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tandem_operator.api.status import Status

RESOURCE_LABELS: Final = ("resource_namespace", "resource_name")

CONDITION: Final = "tandem_resource_condition"
ENGINES: Final = "tandem_resource_engines"
QUARANTINED: Final = "tandem_resource_quarantined_engines"
GENERATION: Final = "tandem_resource_topology_generation"
PAIRS: Final = "tandem_resource_topology_pairs"
RECONCILED: Final = "tandem_resource_reconciled_timestamp_seconds"

FAMILIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    CONDITION: ("What does the resource's status say? 1 for each condition.", ("type", "status", "reason")),
    ENGINES: (
        "How many engine pods does a role have? (existing, and of these ready, updated: of the revision that the spec asks for, "
        "draining)",
        ("role", "state"),
    ),
    QUARANTINED: ("How many engines are out of use because their pairs keep failing?", ()),
    GENERATION: ("Do peer tables change? Highest generation of the engines' tables.", ()),
    PAIRS: ("How many pairs of a prefill and a decode engine know each other?", ()),
    RECONCILED: ("When was the resource, with its peer tables, last brought up to date?", ()),
}
"""Help, and labels besides `RESOURCE_LABELS`, of each metric."""


@dataclass(frozen=True, slots=True)
class _Seen:
    conditions: tuple[tuple[str, str, str], ...]
    status: Status | None
    at: float


class ResourceMetrics(Collector):
    """Remembers each resource's last status."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}
        registry.register(self)

    def saw(self, namespace: str, name: str, status: Status, at: float) -> None:
        """The resource was reconciled; `at` is the time of day in seconds."""
        conditions = tuple((each.type, each.status.value, each.reason) for each in status.conditions)
        self._seen[namespace, name] = _Seen(conditions, status, at)

    def saw_unreadable(self, namespace: str, name: str, conditions: Iterable[Mapping[str, Any]], at: float) -> None:
        """The resource can't be read; its conditions say so, and nothing else is known of it."""
        told = tuple((each["type"], each["status"], each["reason"]) for each in conditions)
        self._seen[namespace, name] = _Seen(told, None, at)

    def forget(self, namespace: str, name: str) -> None:
        """The resource is gone."""
        self._seen.pop((namespace, name), None)

    def clear(self) -> None:
        """Another replica leads."""
        self._seen.clear()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """All metrics, without samples."""
        return iter(_families().values())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All metrics."""
        families = _families()
        for resource, seen in self._seen.items():
            for condition in seen.conditions:
                families[CONDITION].add_metric([*resource, *condition], 1)
            families[RECONCILED].add_metric(resource, seen.at)
            if seen.status is not None:
                _add(families, resource, seen.status)
        return iter(families.values())


def _families() -> dict[str, GaugeMetricFamily]:
    return {
        name: GaugeMetricFamily(name, text, labels=[*RESOURCE_LABELS, *labels])
        for name, (text, labels) in FAMILIES.items()
    }


def _add(families: Mapping[str, GaugeMetricFamily], resource: tuple[str, str], status: Status) -> None:
    for role, pool in (("prefill", status.prefill), ("decode", status.decode)):
        states = {
            "existing": pool.replicas,
            "ready": pool.ready,
            "updated": pool.updated,
            "draining": pool.draining,
        }
        for state, count in states.items():
            families[ENGINES].add_metric([*resource, role, state], count)
    families[QUARANTINED].add_metric(resource, sum(bool(each.uid) for each in status.quarantined))
    families[GENERATION].add_metric(resource, status.topology.generation)
    families[PAIRS].add_metric(resource, status.topology.pairs)
