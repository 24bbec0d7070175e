# SPDX-License-Identifier: Apache-2.0
"""The schema of a chart's values, from their defaults, comments and constraints. Closed: Helm refuses a key that isn't there."""

import json
from collections.abc import Sequence
from typing import Any

from charts.pod_types import Schema, pod_types, references
from charts.values import Value

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}

SHAPES: dict[str, Schema] = {
    # Kubernetes keeps names that begin with system- for itself.
    "className": {
        "type": "string",
        "maxLength": 253,
        "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        "not": {"pattern": "^system-"},
    },
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "duration": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
    "label": {"type": "string", "maxLength": 63, "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"},
    "labels": {
        "type": "object",
        "propertyNames": {
            "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
        },
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        },
    },
    "namespace": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    "objectName": {"type": "string", "maxLength": 253, "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"},
    "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
    "texts": {"type": "object", "additionalProperties": {"type": "string"}},
}
"""What several values are like. Other names that values refer to are types of Kubernetes."""

GLOBAL: Schema = {"description": "Given by Helm to charts inside of others.", "type": "object"}


class OpenValueError(ValueError):
    """Nothing says what a list or a map may hold."""


def values_schema(title: str, values: Sequence[Value]) -> str:
    """The text of values.schema.json.

    Raises:
        OpenValueError: a list or a map has no constraint.
        KeyError: a value refers to a type that is neither one of SHAPES nor one of Kubernetes'.
    """
    properties = {"global": GLOBAL, **{each.name: _schema(each) for each in values}}
    named = set(references(properties))
    shapes = {name: SHAPES[name] for name in sorted(named & SHAPES.keys())}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Generated from values.yaml by `make generate`. Do not edit.",
        "title": title,
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": {**shapes, **pod_types(named - SHAPES.keys())},
    }
    return json.dumps(schema, indent=2) + "\n"


def _schema(value: Value) -> Schema:
    description = {"description": value.description} if value.description else {}
    if value.fields:
        properties = {each.name: _schema(each) for each in value.fields}
        return {**description, "type": "object", "additionalProperties": False, "properties": properties}
    constraints: dict[str, Any] = value.constraints
    if "$ref" not in constraints and "enum" not in constraints:
        constraints = {"type": _TYPES[type(value.default)], **constraints}
    if constraints.get("type") == "array" and "items" not in constraints:
        raise OpenValueError(f"{value.path} needs `@schema {{items: ...}}` above it in values.yaml")
    if constraints.get("type") == "object" and "additionalProperties" not in constraints:
        raise OpenValueError(f"{value.path} needs `@schema {{$ref: ...}}` above it in values.yaml")
    return {**description, "default": value.default, **constraints}
