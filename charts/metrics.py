# SPDX-License-Identifier: Apache-2.0
"""All metrics that Tandem has, from the tables of the code, and the page that lists them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tandem_connector.vllm.metrics import COUNTERS, GAUGES, WAIT, Metric
from tandem_operator.metrics import Metrics
from tandem_operator.resource_metrics import FAMILIES, RESOURCE_LABELS

ENGINE_LABELS: Final = ("model_name", "engine")
"""vLLM's own, on each metric of an engine; `engine` is the data-parallel rank."""


@dataclass(frozen=True, slots=True)
class Described:
    """One metric as Prometheus shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def engine_metrics() -> list[Described]:
    """Of the connector, in every engine with `Push`."""
    return [
        *(_engine_metric(each, "counter") for each in COUNTERS),
        *(_engine_metric(each, "gauge") for each in GAUGES),
        _engine_metric(WAIT, "histogram"),
    ]


def _engine_metric(metric: Metric, kind: str) -> Described:
    suffix = "_total" if kind == "counter" else ""
    return Described(f"tandem_{metric.name}{suffix}", kind, metric.labels, f"{metric.help}.")


def operator_metrics() -> list[Described]:
    """Of the operator's process."""
    registry = _Registry()
    Metrics(registry)
    return [
        Described(
            family.name + ("_total" if family.type == "counter" else ""), family.type, labels, family.documentation
        )
        for family, labels in registry.described()
    ]


class _Registry(CollectorRegistry):
    """Keeps what is registered, since label names aren't told by families without samples."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Collector] = []

    def register(self, collector: Collector) -> None:
        super().register(collector)
        self._kept.append(collector)

    def described(self) -> Iterator[tuple[Family, tuple[str, ...]]]:
        for collector in self._kept:
            families = collector.describe() if hasattr(collector, "describe") else collector.collect()
            for family in families:
                yield family, _labels(collector, family.name)


def _labels(collector: Collector, name: str) -> tuple[str, ...]:
    if name in FAMILIES:
        return (*RESOURCE_LABELS, *FAMILIES[name][1])
    return tuple(getattr(collector, "_labelnames", ()))


def metrics_page() -> str:
    """docs/reference/metrics.md."""
    return (
        "<!-- Generated from the code's tables of metrics by `make generate`. Do not edit. -->\n"
        "# Metrics\n\n"
        "Operator: port 8080, `/metrics` (`serviceMonitor.enabled` of the chart). Engines: port 8000, `/metrics`, beside vLLM's own\n"
        "(`podMonitor.enabled`). [Alerts](../alerts.md) and dashboards use them.\n\n"
        "## Operator\n\n"
        "Each help text is the question that the metric answers. Those with `resource_name` are told by the leader only.\n\n"
        f"{_table(operator_metrics())}\n"
        "## Engines\n\n"
        f"With `Push`. Each has {' and '.join(f'`{each}`' for each in ENGINE_LABELS)} of vLLM besides (`engine` is the data-parallel\n"
        "rank), and the monitor's `namespace`, `pod`, `tandem_dev_resource`, `tandem_dev_role` and `tandem_dev_revision`.\n\n"
        f"{_table(engine_metrics())}"
    )


def _table(metrics: list[Described]) -> str:
    rows = (
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |\n"
        for each in metrics
    )
    return "| metric | kind | labels | |\n| --- | --- | --- | --- |\n" + "".join(rows)
