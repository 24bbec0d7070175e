# SPDX-License-Identifier: Apache-2.0
"""Any values that the schema takes make objects that Kubernetes takes."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from charts.values import Value, described_values
from tandem_operator.kube.permissions import RULES
from tests.chart.conformance import faults
from tests.chart.other_values import OTHER_VALUES, merged, nested
from tests.chart.rendering import CHART, Manifest, render
from tests.chart.restricted import violations_of_restricted

DESCRIBED = described_values((CHART / "values.yaml").read_text())
SHAPES = json.loads((CHART / "values.schema.json").read_text())["$defs"]


def strategy(value: Value) -> st.SearchStrategy[Any]:
    """Values of one key: any that its schema takes, where that can be drawn; else the default or another one."""
    other = st.sampled_from([value.default, OTHER_VALUES[value.path]])
    schema = value.constraints
    if "$ref" in schema:
        schema = SHAPES[schema["$ref"].rpartition("/")[2]]
    match schema:
        case {"enum": choices}:
            return st.sampled_from(choices)
        case {"items": {"$ref": "#/$defs/namespace"}}:
            names = st.from_regex(SHAPES["namespace"]["pattern"].replace("$", r"\Z"), alphabet="abz09-")
            return st.lists(names.filter(lambda name: len(name) <= 63), unique=True, max_size=3)
        case {"pattern": pattern}:
            texts = st.from_regex(pattern.replace("$", r"\Z"), alphabet="abcdefshm:0123456789-.")
            return texts.filter(lambda text: len(text) <= schema.get("maxLength", 80))
        case {"type": "number", "maximum": most}:
            return st.integers(schema.get("minimum", 1), most) | st.floats(max(schema.get("minimum", 0.5), 0.5), most)
        case {"minimum": least, "maximum": most}:
            return st.integers(least, most)
        case _:
            return st.booleans() if isinstance(value.default, bool) else other


def chosen(paths: frozenset[str]) -> st.SearchStrategy[Mapping[str, Any]]:
    """Values for these keys."""
    return st.fixed_dictionaries({each.path: strategy(each) for each in DESCRIBED if each.path in paths})


VALUES = st.frozensets(st.sampled_from([each.path for each in DESCRIBED]), max_size=len(DESCRIBED)).flatmap(chosen)


def as_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """As in a file of values."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        result = merged(result, nested(path, value))
    return result


def pods(objects: list[Manifest]) -> list[Manifest]:
    templates = [each["spec"]["template"] for each in objects if each["kind"] == "Deployment"]
    return [each["spec"] for each in (*templates, *(each for each in objects if each["kind"] == "Pod"))]


def rights(objects: list[Manifest]) -> set[tuple[str, str, str]]:
    """What the roles of the operator grant, wherever."""
    roles = [each for each in objects if each["kind"] in {"ClusterRole", "Role"}]
    own = [each for each in roles if not each["metadata"]["name"].endswith(("-edit", "-view"))]
    rules = [rule for role in own for rule in role["rules"]]
    return {(group, what, verb) for rule in rules for group in rule["apiGroups"] for what in rule["resources"]
            for verb in rule["verbs"]}  # fmt: skip


NEEDED = {(rule.group, rule.resource, verb) for rule in RULES for verb in rule.verbs}


@settings(
    max_examples=10,
    deadline=None,
    # Each step of shrinking starts Helm, and there are hundreds.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(VALUES)
def test_any_values_make_valid_restricted_objects_with_the_operators_rights(values: Mapping[str, Any]) -> None:
    # One name for two classes is refused; a test of its own has that.
    assume(
        not values.get("priorityClass.name") or values["priorityClass.name"] != values.get("enginePriorityClass.name")
    )
    objects = render(as_given(values))

    assert [fault for each in objects for fault in faults(each, "1.37")] == []
    identities = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(identities)) == len(identities)
    assert [violations_of_restricted(pod) for pod in pods(objects)] == [[] for _ in pods(objects)]
    assert rights(objects) == (NEEDED if values.get("rbac.create", True) else set())
