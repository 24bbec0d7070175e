# SPDX-License-Identifier: Apache-2.0
"""Autoscalers and gateways name scalers, ports, labels and metrics that there are."""

import re
from typing import Any

import pytest

from e2e.engine.environment import engine_environment
from tandem_connector.contract.environment import HTTP_PORT
from tandem_connector.contract.types import Role
from tandem_operator.api.names import API_VERSION, RESOURCE_LABEL, ROLE_LABEL, ROUTABLE_LABEL, SCALER_KIND, role_name
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, a_resource, observed
from tests.manifests.checking import Manifest, documents, of_kind

NAME = "qwen3-32b"
METRIC = re.compile(r"vllm:[a-z_]+")


def scaled() -> list[dict[str, Any]]:
    hpa = documents("scaling/hpa.yaml")
    return [each["spec"]["scaleTargetRef"] for each in (*documents("scaling/keda.yaml"), *hpa)]


def made_by_the_operator(*, front_door: bool) -> list[Manifest]:
    resource = a_resource().named(NAME).with_spec("frontDoor", "enabled", value=front_door)
    return [dict(each) for each in plan(observed(resource), DEFAULTS).objects]


def test_autoscalers_turn_the_scalers_that_the_operator_makes() -> None:
    names = {role_name(NAME, role) for role in Role}

    assert {each["name"] for each in scaled()} == names
    assert {(each["apiVersion"], each["kind"]) for each in scaled()} == {(API_VERSION, SCALER_KIND)}


def test_keda_asks_for_the_engines_of_the_role_that_it_scales() -> None:
    for each in documents("scaling/keda.yaml"):
        role = each["spec"]["scaleTargetRef"]["name"].removeprefix(f"{NAME}-")
        for trigger in each["spec"]["triggers"]:
            labels = dict(re.findall(r'(\w+)="([^"]+)"', trigger["metadata"]["query"]))
            labels.pop("reason", None)
            assert labels == {
                "namespace": each["metadata"]["namespace"],
                # How Prometheus writes a pod's labels.
                re.sub(r"\W", "_", RESOURCE_LABEL): NAME,
                re.sub(r"\W", "_", ROLE_LABEL): role,
            }


def test_the_metrics_that_scale_are_vllms() -> None:
    environment = engine_environment()
    if not environment.complete:
        pytest.skip("the engine environment isn't built: run `make prepare`")
    known = set(METRIC.findall((environment.site_packages / "vllm/v1/metrics/loggers.py").read_text()))
    queries = [each["metadata"]["query"] for one in documents("scaling/keda.yaml") for each in one["spec"]["triggers"]]
    asked = {name for query in queries for name in METRIC.findall(query)}
    [adapter] = documents("scaling/prometheus-adapter.values.yaml")
    adapted = METRIC.findall(adapter["rules"]["custom"][0]["seriesQuery"])
    [metric] = documents("scaling/hpa.yaml")[0]["spec"]["metrics"]

    assert len(asked) == 3
    assert asked | set(adapted) <= known
    assert [name.replace(":", "_") for name in adapted] == [metric["pods"]["metric"]["name"]]


def test_a_route_leads_to_the_front_doors_service() -> None:
    [rule] = of_kind("gateway/httproute.yaml", "HTTPRoute")["spec"]["rules"]
    services = [each for each in made_by_the_operator(front_door=True) if each["kind"] == "Service"]
    ports = {(each["metadata"]["name"], port["port"]) for each in services for port in each["spec"]["ports"]}

    assert {(each["name"], each["port"]) for each in rule["backendRefs"]} <= ports


def test_a_pool_has_the_engines_that_take_turns_and_its_route_leads_to_it() -> None:
    pool = of_kind("gateway/inferencepool.yaml", "InferencePool")
    route = of_kind("gateway/inferencepool.yaml", "HTTPRoute")
    addresses = [
        each for each in made_by_the_operator(front_door=False) if each["metadata"]["name"].endswith("routable")
    ]

    assert pool["spec"]["selector"]["matchLabels"] == addresses[0]["spec"]["selector"]
    assert ROUTABLE_LABEL in pool["spec"]["selector"]["matchLabels"]
    assert pool["spec"]["targetPorts"] == [{"number": HTTP_PORT}]
    assert route["spec"]["rules"][0]["backendRefs"][0]["name"] == pool["metadata"]["name"]
    assert route["metadata"]["namespace"] == pool["metadata"]["namespace"]
