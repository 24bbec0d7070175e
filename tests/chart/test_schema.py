# SPDX-License-Identifier: Apache-2.0
"""The schema of the values: made from their comments, closed, as strict as Kubernetes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from charts.pod_types import pod_types
from charts.schema import OpenValueError, values_schema
from charts.values import described_values, value_tree
from tests.chart.other_values import nested
from tests.chart.rendering import CHART, HelmError, render

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DESCRIBED = described_values((CHART / "values.yaml").read_text())

OPEN = {"properties.global", "properties.extraObjects.items"}
"""What others may put anything into: charts around this one, and objects that the API server checks."""


def schema_of(text: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(values_schema("A chart", value_tree(text)))
    return result


def _objects(schema: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All schemas of objects, by where they are."""
    if isinstance(schema, dict):
        if schema.get("type") in ("object", ["object", "null"]):
            yield path, schema
        for name, each in schema.items():
            yield from _objects(each, f"{path}.{name}".removeprefix("."))


def test_no_object_of_the_schema_takes_a_key_that_is_not_known() -> None:
    anything = {path for path, each in _objects(SCHEMA) if each.get("additionalProperties", True) is True}

    assert anything == OPEN


def test_the_schema_has_the_keys_of_the_values_and_what_they_mean() -> None:
    assert set(SCHEMA["properties"]) == {*VALUES, "global"}
    for value in DESCRIBED:
        place = SCHEMA
        for name in value.path.split("."):
            place = place["properties"][name]
        assert place["description"] == value.description
        assert place["default"] == value.default


def test_a_type_comes_from_the_default_and_the_rest_from_the_comment() -> None:
    schema = schema_of('# How many.\n# @schema {minimum: 1}\na: 2\n# A word.\nb: ""\n# Whether.\nc: true\n')

    assert schema["properties"]["a"] == {"description": "How many.", "default": 2, "type": "integer", "minimum": 1}
    assert schema["properties"]["b"]["type"] == "string"
    assert schema["properties"]["c"]["type"] == "boolean"


def test_the_types_that_values_refer_to_come_along_with_those_that_they_refer_to() -> None:
    schema = schema_of('# Where.\n# @schema {$ref: "#/$defs/Affinity"}\na: {}\n')

    assert {"Affinity", "NodeAffinity", "PodAffinity", "LabelSelector"} <= schema["$defs"].keys()
    assert "Toleration" not in schema["$defs"]


@pytest.mark.parametrize("default", ["[]", "{}"])
def test_a_list_or_map_of_which_nothing_is_said_is_refused(default: str) -> None:
    with pytest.raises(OpenValueError, match="a needs `@schema"):
        schema_of(f"# Some.\na: {default}\n")


def test_a_type_that_kubernetes_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError, match="Tolerance"):
        pod_types(["Tolerance"])


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        ("tolerations", [{"key": "a", "operators": "Exists"}], "operators"),
        ("affinity", {"podAntiAfinity": {}}, "podAntiAfinity"),
        ("topologySpreadConstraints", [{"maxSkew": 1, "key": "zone"}], "key"),
        ("extraEnv", [{"name": "A", "valueFrom": {"secretRef": {}}}], "secretRef"),
        ("extraVolumes", [{"name": "host", "hostPath": {"path": "/"}}], "hostPath"),
        ("extraVolumeMounts", [{"name": "a", "path": "/a"}], "path"),
        ("resources", {"request": {}}, "request"),
        ("networkPolicy.metricsFrom", [{"podselector": {}}], "podselector"),
        ("imagePullSecrets", [{"secret": "a"}], "secret"),
    ],
)
def test_what_goes_into_a_pod_is_held_to_the_types_of_kubernetes(path: str, value: object, wrong: str) -> None:
    with pytest.raises(HelmError, match=rf"additional properties '{wrong}' not allowed"):
        render(nested(path, value))


def test_quantities_may_be_numbers_or_texts() -> None:
    assert render({"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}})
