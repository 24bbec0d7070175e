# SPDX-License-Identifier: Apache-2.0
"""The connector's metrics in vLLM's own Prometheus registry, under `tandem_` and with vLLM's labels."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import prometheus_client
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

from tandem_connector.vllm.metrics import (
    BY_PEER,
    COUNTERS,
    GAUGES,
    SEPARATOR,
    WAIT,
    WAIT_BUCKETS,
    Metric,
    merged,
    summary,
)

PREFIX: Final = "tandem_"


@dataclass
class TandemStats(KVConnectorStats):  # type: ignore[misc]
    """`Meter.news`, as vLLM carries it to the process that serves metrics."""

    data: dict[str, Any] = field(default_factory=dict)

    def reset(self) -> None:
        """Forget what was told."""
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> "TandemStats":
        """Both, one after the other."""
        both = merged(self.data, other.data) if self.data and other.data else self.data or other.data
        return TandemStats(data=both)

    def reduce(self) -> dict[str, int | float]:
        """What vLLM's log line shows."""
        return summary(self.data)

    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.data


class TandemMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """Registers the metrics, and adds what is told."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        # With several API servers the client library keeps all series in files, and can take none back.
        self._may_remove = "PROMETHEUS_MULTIPROC_DIR" not in os.environ
        counter, gauge = metric_types[prometheus_client.Counter], metric_types[prometheus_client.Gauge]
        histogram = metric_types[prometheus_client.Histogram]
        self._counters = {metric.name: _registered(counter, metric, labelnames) for metric in COUNTERS}
        self._gauges = {
            metric.name: _registered(gauge, metric, labelnames, multiprocess_mode="mostrecent") for metric in GAUGES
        }
        self._wait = _registered(histogram, WAIT, labelnames, buckets=WAIT_BUCKETS)
        for values in per_engine_labelvalues.values():
            # So that what never happened is seen to be 0.
            for metric in COUNTERS:
                if not metric.labels:
                    self._counters[metric.name].labels(*values)

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Add what is told of one engine."""
        ours = self.per_engine_labelvalues[engine_idx]
        for name, values in transfer_stats_data["counters"].items():
            for label, added in values.items():
                self._counters[name].labels(*ours, *_parts(label)).inc(added)
        for name, values in transfer_stats_data["gauges"].items():
            for label, value in values.items():
                self._gauges[name].labels(*ours, *_parts(label)).set(value)
        for seconds in transfer_stats_data["waits"]:
            self._wait.labels(*ours).observe(seconds)
        for peer in transfer_stats_data["gone"] if self._may_remove else ():
            for name in BY_PEER:
                self._counters[name].remove_by_labels({**dict(zip(self._labelnames, ours, strict=True)), "peer": peer})


def _registered(kind: Any, metric: Metric, labels: list[str], **more: Any) -> Any:
    return kind(name=PREFIX + metric.name, documentation=metric.help, labelnames=[*labels, *metric.labels], **more)


def _parts(label: str) -> list[str]:
    return label.split(SEPARATOR) if label else []


def stats_of(news: Mapping[str, Any] | None) -> TandemStats | None:
    """News as vLLM carries it."""
    return None if news is None else TandemStats(data=dict(news))
