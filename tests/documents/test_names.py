# SPDX-License-Identifier: Apache-2.0
"""Every field and every value of the chart that the documents name is there."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tandem_operator.api.crd import DEFINITIONS
from tests.documents.blocks import DOCUMENTS, ROOT

NAMED = re.compile(r"`((?:spec\.|status\.)?[a-z]\w+(?:\.\w+)+)(?:: ?[^`]*)?`")
OF_A_POD = frozenset({"spec.resourceClaims"})
Schema = Mapping[str, Any]


def schemas() -> list[Schema]:
    """Of resources and scalers, of a resource's spec alone, and of the chart's values."""
    versions = [each.manifest()["spec"]["versions"][0] for each in DEFINITIONS]
    ours = [version["schema"]["openAPIV3Schema"] for version in versions]
    values = json.loads((ROOT / "charts/tandem/values.schema.json").read_text())
    return [*ours, ours[0]["properties"]["spec"], values]


SCHEMAS = schemas()


def has(schema: Schema, path: list[str]) -> bool:
    """Whether an object of the schema may have this field; below what is Kubernetes' own or free, everything is there."""
    if not path:
        return True
    schema = schema["items"] if schema.get("type") == "array" else schema
    if "properties" not in schema:
        return schema.get("type") in {None, "object"}
    return path[0] in schema["properties"] and has(schema["properties"][path[0]], path[1:])


def names(text: str) -> list[list[str]]:
    """Paths between backticks that begin as a field or a value does."""
    paths = [name.split(".") for name in NAMED.findall(text) if name not in OF_A_POD]
    return [path for path in paths if any(path[0] in schema["properties"] for schema in SCHEMAS)]


def test_every_field_and_value_that_is_named_is_there() -> None:
    named = [(page, path) for page in DOCUMENTS for path in names(page.read_text())]
    wrong = [
        f"{page.relative_to(ROOT)}: {'.'.join(path)}"
        for page, path in named
        if not any(has(schema, path) for schema in SCHEMAS)
    ]

    assert len(named) > 300
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("scaling.drain.timeout", True),
        ("spec.verification.period", True),
        ("status.quarantined", True),
        ("prometheusRule.labels", True),
        ("scaling.drain.timeOut", False),
        ("spec.scaling.gpus", False),
        ("prometheusRule.label", False),
        ("model.name.first", False),
    ],
)
def test_a_name_that_is_not_there_is_noticed(name: str, there: bool) -> None:
    [path] = names(f"`{name}: value`")

    assert any(has(schema, path) for schema in SCHEMAS) == there
