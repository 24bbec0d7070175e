# SPDX-License-Identifier: Apache-2.0
"""What the operator's process did and used, as it and the kernel count it."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from e2e.bench.figure import figure
from e2e.bench.topology.numbers import percentile_of_histogram
from e2e.bench.topology.process import Usage
from e2e.suite.operator_process import OperatorProcess

K = TypeVar("K", str, float)

REST = 30.0
"""Seconds over which an operator at rest is watched."""
_SETTLES = 10.0
_ASKED = frozenset({"changed", "unchanged", "refused", "immutable", "gone"})
"""Results of writes that the API server was asked for."""


@dataclass(frozen=True)
class Cost:
    """Since the process began, or between two looks."""

    usage: Usage
    writes: Mapping[str, float]
    """By kind."""
    looks: Mapping[float, float]
    """Reconciles: how many took no longer than so many seconds."""
    waits: Mapping[float, float]
    """The same of what came before each: how long it waited for a worker."""

    @classmethod
    def of(cls, replica: OperatorProcess) -> Self:
        """Up to now."""
        writes: defaultdict[str, float] = defaultdict(float)
        looks: defaultdict[float, float] = defaultdict(float)
        waits: defaultdict[float, float] = defaultdict(float)
        for sample in replica.samples():
            if sample.name == "tandem_applies_total" and sample.labels["result"] in _ASKED:
                writes[sample.labels["kind"]] += sample.value
            elif sample.name == "tandem_events_total":
                writes["Event"] += sample.value
            elif sample.name == "tandem_reconcile_duration_seconds_bucket":
                looks[float(sample.labels["le"])] += sample.value
            elif sample.name == "tandem_queue_latency_seconds_bucket":
                waits[float(sample.labels["le"])] += sample.value
        return cls(Usage.of(replica.pid), writes, looks, waits)

    def since(self, before: Self) -> Self:
        """What came after `before`."""
        usage = Usage(self.usage.cpu_seconds - before.usage.cpu_seconds, self.usage.resident, self.usage.most_resident)
        return type(self)(
            usage,
            _less(self.writes, before.writes),
            _less(self.looks, before.looks),
            _less(self.waits, before.waits),
        )

    def print(self, name: str, changes: int) -> None:
        """As figures, by change where it is a sum."""
        looks = self.looks[float("inf")]
        figure(f"{name}_reconciles", looks / changes, "a change")
        for share in (50, 99):
            figure(f"{name}_reconcile_p{share}", percentile_of_histogram(self.looks, share / 100) * 1000, "ms")
            figure(f"{name}_queued_p{share}", percentile_of_histogram(self.waits, share / 100) * 1000, "ms")
        for kind, count in sorted(self.writes.items()):
            if count:
                figure(f"{name}_writes_{kind}", count / changes, "a change")
        figure(f"{name}_operator_cpu", self.usage.cpu_seconds / changes * 1000, "ms a change")


async def at_rest(replica: OperatorProcess) -> None:
    """What it uses while nothing happens."""
    await asyncio.sleep(_SETTLES)
    before = Cost.of(replica)
    await asyncio.sleep(REST)
    used = Cost.of(replica).since(before)
    figure("rest_operator_cpu", used.usage.cpu_seconds / REST * 100, "% of a core")
    figure("rest_operator_memory", used.usage.resident / 2**20, "MiB")
    figure("rest_reconciles", used.looks[float("inf")], f"in {REST:.0f} s")
    figure("rest_writes", sum(used.writes.values()), f"in {REST:.0f} s")


def _less(now: Mapping[K, float], before: Mapping[K, float]) -> dict[K, float]:
    return {key: value - before.get(key, 0.0) for key, value in now.items()}
