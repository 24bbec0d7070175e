# SPDX-License-Identifier: Apache-2.0
"""The reference pages of the API, as Markdown, from its schema and enumerations."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from tandem_operator.api.accelerators import HYPERPOD_PREFIX, PROFILES, Profile
from tandem_operator.api.arguments import OWNED_ENGINE_ARGUMENTS, OWNED_FRONT_DOOR_ARGUMENTS, OWNED_VARIABLES
from tandem_operator.api.names import (
    API_VERSION,
    CATEGORY,
    KIND,
    PLURAL,
    SCALER_KIND,
    SCALER_PLURAL,
    SCALER_SHORT_NAME,
    SHORT_NAME,
)
from tandem_operator.api.schema import Schema
from tandem_operator.api.status import ConditionStatus, ConditionType, Reason

_HEADER: Final = "<!-- Generated from operator/src/tandem_operator/api by `make generate`. Do not edit. -->\n"


def api_reference(schema: Schema) -> str:
    """The page of all fields and rules of the resource with this schema."""
    sections = [
        f"{_HEADER}# {KIND}\n",
        f"`apiVersion: {API_VERSION}`, namespaced. `kubectl get {PLURAL}`, or shorter `kubectl get {SHORT_NAME}`; "
        f"`kubectl get {CATEGORY}` lists it too.\n\n"
        "A field without *required* may be left out. The stored object stays as it was written: defaults are resolved by "
        "the operator and are never written into the spec.\n",
        *(_fields(title, schema["properties"][title]) for title in ("spec", "status")),
        "## Rules\n",
        "The API server refuses a resource that breaks one of these, and names the field. `<...>` stands for a value. "
        "Types and bounds are in the tables above.\n",
        _table(("field", "refused with"), (_rule_row(path, rule) for path, rule in _rules(schema, ""))),
        "## Instance types\n",
        "What one node has, as the rules see it.\n",
        _table(("`instanceType`", "GPUs", "EFA devices", "huge pages (Mi)"), map(_profile_row, PROFILES.values())),
        f"SageMaker HyperPod has the same types, and labels its nodes with `{HYPERPOD_PREFIX}` before each: "
        f"`{HYPERPOD_PREFIX}p5en.48xlarge`.\n",
        "## Arguments that Tandem sets\n",
        "They are refused in `args`, under abbreviated names too.\n",
        _table(("argument of vLLM", "instead"), _argument_rows(OWNED_ENGINE_ARGUMENTS)),
        _table(("argument of vllm-router", "instead"), _argument_rows(OWNED_FRONT_DOOR_ARGUMENTS)),
        "So are these variables in `env`: " + ", ".join(f"`{name}`" for name in sorted(OWNED_VARIABLES)) + ".\n",
    ]
    return "\n".join(sections)


def scaler_reference(schema: Schema) -> str:
    """The page of all fields of the scaler with this schema."""
    sections = [
        f"{_HEADER}# {SCALER_KIND}\n",
        f"`apiVersion: {API_VERSION}`, namespaced. `kubectl get {SCALER_PLURAL}`, or shorter `kubectl get {SCALER_SHORT_NAME}`; "
        f"`kubectl get {CATEGORY}` lists it too.\n\n"
        f"Tandem makes one for each role of a {KIND} whose number of engines the spec leaves open, named `<resource>-prefill` and "
        "`<resource>-decode`. It has the scale subresource, so a HorizontalPodAutoscaler, KEDA and `kubectl scale` can turn it. "
        "[Who decides the number](../design/009-scalers.md) says when there is one, and what bounds it.\n",
        *(_fields(title, schema["properties"][title]) for title in ("spec", "status")),
    ]
    return "\n".join(sections)


def conditions_reference() -> str:
    """The page of all condition types and reasons."""
    statuses = ", ".join(f"`{status.value}`" for status in ConditionStatus)
    return "\n".join(
        [
            f"{_HEADER}# Conditions and reasons\n",
            f"`status.conditions` has one condition of each type from the first reconcile on. Each is {statuses}, says why in "
            "`reason` (for programs) and `message` (for people), and names the generation of the resource that it is about.\n",
            "## Types\n",
            _table(("type", "true when"), _members(ConditionType)),
            "## Reasons\n",
            _table(("reason", "meaning"), _members(Reason)),
        ]
    )


def _fields(title: str, schema: Schema) -> str:
    rows = (_field_row(path, each, required) for path, each, required in _walk(schema, title))
    return f"## {title}\n\n" + _table(("field", "type", "meaning"), rows)


def _walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema, bool]]:
    for name, each in schema.get("properties", {}).items():
        yield f"{path}.{name}", each, name in schema.get("required", ())
        yield from _walk(each, f"{path}.{name}")
    if "items" in schema:
        yield from _walk(schema["items"], f"{path}[]")


def _field_row(path: str, schema: Schema, required: bool) -> tuple[str, str, str]:
    meaning = " ".join(schema.get("description", "").split())
    return f"`{path}`", _type(schema) + (", *required*" if required else ""), meaning


def _type(schema: Schema) -> str:
    match schema:
        case {"enum": values}:
            words = "one of " + ", ".join(f"`{value}`" for value in values)
        case {"x-kubernetes-int-or-string": True}:
            words = "quantity or whole number"
        case {"type": "array", "items": items}:
            words = f"list of at most {schema['maxItems']}: {_type(items)}"
        case {"type": "object", "additionalProperties": values}:
            words = f"map of at most {schema['maxProperties']}: {_type(values)}"
        case {"x-kubernetes-preserve-unknown-fields": True}:
            words = "object, as in a pod"
        case {"type": "integer", "minimum": least, "maximum": most}:
            words = f"whole number, {least} to {most}"
        case {"type": "integer"}:
            words = "whole number"
        case {"type": "string", "format": "date-time"}:
            words = "time"
        case {"type": "string", "pattern": pattern}:
            words = f"text matching `{pattern}`".replace("|", "\\|")
        case {"type": "string", "maxLength": most}:
            words = f"text, at most {most} characters"
        case {"type": kind}:
            words = str(kind)
        case _:
            raise ValueError(f"no words for the type of {schema}")
    return words


def _rules(schema: Schema, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield (path + rule.get("fieldPath", "")).removeprefix("."), rule
    for name, each in schema.get("properties", {}).items():
        yield from _rules(each, f"{path}.{name}")
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")


def _rule_row(path: str, rule: Mapping[str, Any]) -> tuple[str, str]:
    return f"`{path}`", f"`{rule['message']}`"


def _profile_row(profile: Profile) -> tuple[str, ...]:
    return f"`{profile.instance_type}`", str(profile.gpus), str(profile.efas), str(profile.hugepages_mebibytes)


def _argument_rows(owned: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"`{argument}`", remedy) for argument, remedy in owned.items())


def _members(enum: type[StrEnum]) -> Iterator[tuple[str, str]]:
    """Value and docstring of each member. Python keeps no docstrings of members, so they are read from the source."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(enum))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - for the type checker
    for statement, after in zip(definition.body, definition.body[1:], strict=False):
        match statement, after:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                yield f"`{enum[name].value}`", " ".join(text.split())


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
