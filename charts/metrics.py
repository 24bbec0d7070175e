# SPDX-License-Identifier: Apache-2.0
"""All metrics that Tandem has, from the tables of the code, and the page that lists them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tandem_connector.vllm.metrics import COUNTERS, GAUGES, WAIT, Metric
from tandem_connector.vllm.peer_counts import KEPT
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


_BY_PEER: Final = f"""## By peer

`tandem_peer_bytes_*_total` tell pairs apart: `peer` is the other engine's pod, as the monitor's `pod` is this one's.
So the writer's `{{pod="A", peer="B"}}` of the one is the receiver's `{{pod="B", peer="A"}}` of the other. Blocks
aren't counted by peer, to keep series few: they are the bytes by those of a block, which all engines of a resource
have alike.

* **Sums.** Over all peers there ever were it is what `tandem_bytes_*_total` has, to the byte. When a peer has gone,
  its part is in that total only.
* **Beginning.** A pod that comes into the engine's peer table has its series at once, at 0, for each purpose that
  there may be between the two. A process that begins anew in it goes on with them.
* **End.** {KEPT:g} s after a pod has left the table, and after the last block between the two, its series are gone,
  so that each is scraped once more first; an engine with nothing to do takes up to 30 s longer. So there are as many
  as the table has pods, and those that left it lately. With several API servers in one engine pod, as vLLM has with
  data-parallel ranks, Prometheus' client library can't take series back: they stay, and grow no more, until the pod
  ends. They are few there too: an engine's peers are pods of one StatefulSet, whose names come again, and its heirs.
* **Data-parallel ranks** of the engine are told apart by `engine`, those of the peer are one.
"""


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
        f"{_table(engine_metrics())}\n"
        f"{_BY_PEER}"
    )


def _table(metrics: list[Described]) -> str:
    rows = (
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |\n"
        for each in metrics
    )
    return "| metric | kind | labels | |\n| --- | --- | --- | --- |\n" + "".join(rows)
