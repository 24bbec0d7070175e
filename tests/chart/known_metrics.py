# SPDX-License-Identifier: Apache-2.0
"""Metrics, labels and values that there are, by the code's own tables."""

from dataclasses import fields

from charts.metrics import ENGINE_LABELS, engine_metrics, operator_metrics
from tandem_connector.asking.types import Failure, LocalReason, Obstacle
from tandem_connector.contract.messages import Purpose
from tandem_connector.exchange.types import EndReason
from tandem_connector.vllm.peer_table import TableCounts
from tandem_operator.api.status import ConditionStatus, ConditionType, Reason
from tests.chart.promql import grouped, selected
from tests.chart.vllm_metrics import VLLM_METRICS

OF_THE_PODS_TARGET = {"namespace", "pod", "container", "endpoint", "instance", "job"}
"""Labels that the Prometheus operator gives whatever a monitor finds."""
OF_THE_ENGINES_MONITOR = {"tandem_dev_resource", "tandem_dev_role", "tandem_dev_revision"}

VALUES: dict[tuple[str, str], set[str]] = {
    ("tandem_resource_condition", "type"): set(ConditionType),
    ("tandem_resource_condition", "status"): set(ConditionStatus),
    ("tandem_resource_condition", "reason"): set(Reason),
    ("tandem_resource_engines", "state"): {"existing", "ready", "updated", "draining"},
    ("tandem_prompts_local_total", "reason"): {*LocalReason, *Obstacle},
    ("tandem_prefill_failures_total", "failure"): set(Failure),
    ("tandem_prefills_total", "what"): {"answered", "shared", "promoted"},
    ("tandem_blocks_lost_total", "reason"): set(EndReason),
    ("tandem_peer_tables_total", "what"): {each.name for each in fields(TableCounts)},
    ("tandem_prompt_tokens_total", "source"): {"computed", "cached", *Purpose},
    ("tandem_transport", "provider"): {"efa", ""},
    ("tandem_peer_bytes_received_total", "purpose"): set(Purpose),
}
"""What a label of few values may be."""


def _labels() -> dict[str, set[str]]:
    """Of each metric that a query may name."""
    known: dict[str, set[str]] = {}
    for described, more in (
        *((each, OF_THE_PODS_TARGET) for each in operator_metrics()),
        *((each, {*OF_THE_PODS_TARGET, *OF_THE_ENGINES_MONITOR, *ENGINE_LABELS}) for each in engine_metrics()),
    ):
        labels = {*described.labels, *more}
        if described.kind == "histogram":
            known[f"{described.name}_bucket"] = {*labels, "le"}
            known[f"{described.name}_sum"] = known[f"{described.name}_count"] = labels
        else:
            known[described.name] = labels
    for name, own in VLLM_METRICS.items():
        known[name] = {*own, *ENGINE_LABELS, *OF_THE_PODS_TARGET, *OF_THE_ENGINES_MONITOR}
    return known


LABELS = _labels()


def what_there_is_not(expression: str) -> list[str]:
    """Metrics, labels and values that an expression of PromQL names and the code has not."""
    found = []
    for each in selected(expression):
        if each.metric not in LABELS:
            found.append(each.metric)
            continue
        found += [f"{each.metric}{{{label}}}" for label, _ in each.matchers if label not in LABELS[each.metric]]
        for label, value in each.matchers:
            allowed = VALUES.get((each.metric, label))
            if allowed is not None:
                found += [f"{each.metric}{{{label}={one}}}" for one in value.split("|") if one not in allowed]
    for labels, metrics in grouped(expression):
        found += [f"by ({label})" for label in labels for metric in metrics if label not in LABELS.get(metric, labels)]
    return found


OWN_LABELS: dict[str, set[str]] = {
    **{each.name: set(each.labels) for each in operator_metrics()},
    **{each.name: {*each.labels, *ENGINE_LABELS} for each in engine_metrics()},
}
"""That each series of Tandem's metrics has, before a monitor adds others."""
