# SPDX-License-Identifier: Apache-2.0
"""Samples: the operator acts on each, and what it makes of it is what the sample's first lines promise."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem_connector.contract.types import Role
from tandem_operator.api.names import API_VERSION, KIND, SCALER_KIND
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, observed
from tests.builders.resources import UID, ResourceBuilder
from tests.chart.conformance import faults
from tests.plan.made import engine, objects

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((SAMPLES / name).read_text()) if each]


def resource(name: str) -> ResourceBuilder:
    """As the API server gives the sample's DisaggregatedInference back."""
    [given] = [each for each in documents(name) if each["kind"] == KIND]
    given["metadata"] |= {"namespace": "models", "uid": UID, "generation": 1}
    return ResourceBuilder(given)


RESOURCES = sorted(path.name for path in SAMPLES.glob("*.yaml") if f"kind: {KIND}\n" in path.read_text())
ON_P5EN = [name for name in RESOURCES if "p5en" in name]


@pytest.mark.parametrize("name", RESOURCES)
def test_what_the_operator_makes_of_a_sample_fits_kubernetes(name: str) -> None:
    made = plan(observed(resource(name)), DEFAULTS).objects

    assert {"StatefulSet", "Deployment", "Service"} <= {each["kind"] for each in made}
    assert [fault for each in made if each["kind"] != SCALER_KIND for fault in faults(each, "1.37")] == []


@pytest.mark.parametrize("name", ON_P5EN)
@pytest.mark.parametrize("role", Role)
def test_engines_of_the_samples_for_p5en_take_a_whole_node(name: str, role: Role) -> None:
    limits = engine(resource(name), role)["resources"]["limits"]

    assert limits == {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "16"}


def test_there_are_samples_from_no_gpu_to_many_nodes() -> None:
    gpus = {name: engine(resource(name)).get("resources", {}).get("limits", {}) for name in RESOURCES}

    assert "nvidia.com/gpu" not in gpus["cpu-tiny.yaml"]
    assert gpus["qwen3-8b-one-node.yaml"] == {"nvidia.com/gpu": "1"}
    assert {"glm-5-fp8-p5en.yaml", "qwen3-32b-p5en.yaml", "qwen3-32b-p5en-full.yaml"} == set(ON_P5EN)


def test_an_autoscaler_of_a_sample_turns_a_scaler_that_the_operator_makes() -> None:
    [autoscaler] = [each for each in documents("qwen3-32b-p5en-full.yaml") if each["kind"] == "HorizontalPodAutoscaler"]
    [scaler] = plan(observed(resource("qwen3-32b-p5en-full.yaml")), DEFAULTS).new
    target, bounds = autoscaler["spec"]["scaleTargetRef"], autoscaler["spec"]

    assert target == {"apiVersion": API_VERSION, "kind": scaler["kind"], "name": scaler["metadata"]["name"]}
    autoscaling = resource("qwen3-32b-p5en-full.yaml").manifest()["spec"]["decode"]["autoscaling"]
    assert autoscaling == {"minReplicas": bounds["minReplicas"], "maxReplicas": bounds["maxReplicas"]}
    assert faults(autoscaler, "1.37") == []


def test_monitoring_is_let_in_where_a_sample_names_it() -> None:
    [policy] = objects(resource("qwen3-32b-p5en-full.yaml"), "NetworkPolicy").values()

    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert monitoring in [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
