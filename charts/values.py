# SPDX-License-Identifier: Apache-2.0
"""Values of a chart with their descriptions, from the comments of its values.yaml."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml


class UndescribedValueError(ValueError):
    """A value has no comment above it."""


@dataclass(frozen=True)
class Value:
    """One thing that a user may set."""

    path: str
    default: str
    """As JSON, which is YAML too."""
    description: str


def described_values(text: str) -> list[Value]:
    """All values in their order. An object whose own key has no comment is described by its fields.

    Raises:
        UndescribedValueError: a value that has no fields has no comment.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # noqa: S101 - for the type checker
    return list(_values(root, yaml.safe_load(text), text.splitlines(), ""))


def _values(node: yaml.MappingNode, defaults: dict[str, Any], lines: list[str], prefix: str) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        default = defaults[key.value]
        description = _comment_above(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and not value.flow_style and _has_comments(value, lines):
            yield from _values(value, default, lines, f"{path}.")
        elif description:
            yield Value(path, json.dumps(default), description)
        else:
            raise UndescribedValueError(f"{path} has no comment above it in values.yaml")


def _has_comments(node: yaml.MappingNode, lines: list[str]) -> bool:
    return any(_comment_above(lines, key.start_mark.line) for key, _ in node.value)


def _comment_above(lines: list[str], line: int) -> str:
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(found)
