# SPDX-License-Identifier: Apache-2.0
"""Monitors for the Prometheus operator select what the chart and the operator really make."""

from typing import Any

import pytest

from tests.builders import a_resource
from tests.builders.resources import ResourceBuilder
from tests.chart.rendering import Manifest, kinds, one, render
from tests.manifests.checking import problems
from tests.plan.made import objects

ENABLED: dict[str, Any] = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """As Kubernetes reads a label selector; of the operators only `In`."""
    assert {each["operator"] for each in selector.get("matchExpressions", ())} <= {"In"}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", ())
    )


def pod_templates(resource: ResourceBuilder) -> list[Manifest]:
    sets, front_doors = objects(resource, "StatefulSet"), objects(resource, "Deployment")
    return [each["spec"]["template"] for each in (*sets.values(), *front_doors.values())]


def ports(template: Manifest) -> set[str]:
    return {port["name"] for container in template["spec"]["containers"] for port in container.get("ports", ())}


RESOURCES = pytest.mark.parametrize("resource", [a_resource(), a_resource().pulling()], ids=["Push", "NixlPull"])


@RESOURCES
def test_the_monitor_of_engines_reads_all_engines_and_nothing_else(resource: ResourceBuilder) -> None:
    spec = one(render(ENABLED), "PodMonitor", "tandem-engines")["spec"]
    selected = [each for each in pod_templates(resource) if selects(spec["selector"], each["metadata"]["labels"])]

    assert [each["metadata"]["labels"]["tandem.dev/role"] for each in selected] == ["prefill", "decode"]
    [endpoint] = spec["podMetricsEndpoints"]
    assert all(endpoint["port"] in ports(each) for each in selected)
    assert all(set(spec["podTargetLabels"]) <= each["metadata"]["labels"].keys() for each in selected)


@RESOURCES
def test_the_monitor_of_front_doors_reads_the_port_of_their_metrics(resource: ResourceBuilder) -> None:
    spec = one(render(ENABLED), "PodMonitor", "tandem-front-doors")["spec"]
    [selected] = [each for each in pod_templates(resource) if selects(spec["selector"], each["metadata"]["labels"])]

    assert selected["metadata"]["labels"]["tandem.dev/role"] == "front-door"
    [endpoint] = spec["podMetricsEndpoints"]
    assert endpoint["port"] in ports(selected) - {"http"}
    assert set(spec["podTargetLabels"]) <= selected["metadata"]["labels"].keys()


def test_the_monitor_of_the_operator_finds_its_metrics_service() -> None:
    rendered = render(ENABLED)
    service, monitor = one(rendered, "Service", "tandem-metrics"), one(rendered, "ServiceMonitor")

    assert selects(monitor["spec"]["selector"], service["metadata"]["labels"])
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == [
        port["name"] for port in service["spec"]["ports"]
    ]
    assert service["spec"]["selector"] == one(rendered, "Deployment")["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize("name", ["tandem-engines", "tandem-front-doors"])
def test_pods_are_looked_for_where_resources_are_served(name: str) -> None:
    everywhere = one(render(ENABLED), "PodMonitor", name)
    somewhere = one(render({**ENABLED, "watch": {"namespaces": ["a", "b"]}}), "PodMonitor", name)

    assert everywhere["spec"]["namespaceSelector"] == {"any": True}
    assert somewhere["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}


def test_a_prometheus_selects_monitors_by_labels_of_their_own() -> None:
    labels = {"release": "prometheus"}
    rendered = render({name: {"enabled": True, "labels": labels} for name in ENABLED})

    monitors = [each for each in rendered if each["kind"].endswith("Monitor")]
    assert len(monitors) == 3
    assert all(labels.items() <= each["metadata"]["labels"].items() for each in monitors)


def monitors(values: dict[str, Any]) -> list[Manifest]:
    return [each for each in render(values) if each["kind"] in {"PodMonitor", "ServiceMonitor"}]


@pytest.mark.parametrize("watch", [{}, {"namespaces": ["a"]}], ids=["all namespaces", "some namespaces"])
def test_monitors_fit_the_definitions_of_the_prometheus_operator(watch: dict[str, Any]) -> None:
    found = monitors({**ENABLED, "watch": watch})

    assert len(found) == 3
    assert [problem for each in found for problem in problems(each)] == []


def test_a_field_that_the_prometheus_operator_does_not_know_is_noticed() -> None:
    for each in monitors(ENABLED):
        assert problems({**each, "spec": {**each["spec"], "endpoint": []}}) != []


def test_monitors_need_definitions_of_others_and_are_off_by_default() -> None:
    assert kinds(render()).isdisjoint({"PodMonitor", "ServiceMonitor"})
