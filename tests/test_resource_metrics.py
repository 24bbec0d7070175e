# SPDX-License-Identifier: Apache-2.0
"""What the operator tells Prometheus of each resource."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from tandem_operator.api.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    Quarantined,
    Reason,
    RoleStatus,
    Status,
    Topology,
)
from tandem_operator.resource_metrics import FAMILIES, RESOURCE_LABELS, ResourceMetrics

NOW = "2026-01-02T03:04:05Z"
QWEN = {"resource_namespace": "models", "resource_name": "qwen"}


def a_status(reason: Reason = Reason.ENGINES_STARTING) -> Status:
    held = Quarantined(pod="qwen-decode-0", role="decode", uid="u", reason="NothingMoved", since=NOW)
    return Status(
        conditions=(
            Condition(
                type=ConditionType.READY,
                status=ConditionStatus.FALSE,
                observed_generation=1,
                last_transition_time=NOW,
                reason=reason,
                message="...",
            ),
        ),
        decode=RoleStatus(replicas=3, ready=2, updated=1, draining=1),
        topology=Topology(generation=7, engines=4, pairs=3),
        quarantined=(held, held.model_copy(update={"pod": "qwen-decode-1", "uid": ""})),
    )


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> ResourceMetrics:
    return ResourceMetrics(registry)


def test_a_resources_status_becomes_numbers(metrics: ResourceMetrics, registry: CollectorRegistry) -> None:
    metrics.saw("models", "qwen", a_status(), 1000.0)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**QWEN, **labels})

    assert value("tandem_resource_condition", type="Ready", status="False", reason="EnginesStarting") == 1
    assert [
        value("tandem_resource_engines", role="decode", state=state)
        for state in ("existing", "ready", "updated", "draining")
    ] == [3, 2, 1, 1]
    assert value("tandem_resource_engines", role="prefill", state="ready") == 0
    assert value("tandem_resource_topology_generation") == 7
    assert value("tandem_resource_topology_pairs") == 3
    assert value("tandem_resource_reconciled_timestamp_seconds") == 1000


def test_engines_on_trial_are_not_out_of_use(metrics: ResourceMetrics, registry: CollectorRegistry) -> None:
    metrics.saw("models", "qwen", a_status(), 1000.0)

    assert registry.get_sample_value("tandem_resource_quarantined_engines", QWEN) == 1


def test_a_condition_that_is_no_more_is_not_told(metrics: ResourceMetrics, registry: CollectorRegistry) -> None:
    metrics.saw("models", "qwen", a_status(), 1000.0)
    metrics.saw("models", "qwen", a_status(Reason.POD_FAILING), 1001.0)

    labels = {**QWEN, "type": "Ready", "status": "False"}
    assert registry.get_sample_value("tandem_resource_condition", {**labels, "reason": "EnginesStarting"}) is None
    assert registry.get_sample_value("tandem_resource_condition", {**labels, "reason": "PodFailing"}) == 1


def test_a_resource_that_is_gone_and_all_of_a_former_leaders_are_not_told(
    metrics: ResourceMetrics, registry: CollectorRegistry
) -> None:
    for name in ("qwen", "glm"):
        metrics.saw("models", name, a_status(), 1000.0)
    metrics.forget("models", "qwen")

    assert b'resource_name="glm"' in generate_latest(registry)
    assert b"qwen" not in generate_latest(registry)
    metrics.clear()
    assert b"models" not in generate_latest(registry)


def test_of_a_resource_that_cannot_be_read_only_conditions_are_told(
    metrics: ResourceMetrics, registry: CollectorRegistry
) -> None:
    metrics.saw_unreadable("models", "qwen", [{"type": "SpecValid", "status": "False", "reason": "Invalid"}], 1000.0)

    text = generate_latest(registry).decode()
    told = {line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert told == {"tandem_resource_condition", "tandem_resource_reconciled_timestamp_seconds"}


def test_each_metric_has_the_labels_that_it_is_described_with(
    metrics: ResourceMetrics, registry: CollectorRegistry
) -> None:
    metrics.saw("models", "qwen", a_status(), 1000.0)

    samples = [sample for family in metrics.collect() for sample in family.samples]
    assert {sample.name for sample in samples} == set(FAMILIES)
    assert all(set(sample.labels) == {*RESOURCE_LABELS, *FAMILIES[sample.name][1]} for sample in samples)
