# SPDX-License-Identifier: Apache-2.0
"""Values of a chart with their descriptions and constraints, from the comments of its values.yaml.

The comment above a key describes it. A line of it that begins with `@schema` holds keywords of JSON Schema, as a YAML map: what
the default doesn't tell.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

_CONSTRAINTS = "@schema "


class UndescribedValueError(ValueError):
    """A value has no comment above it."""


@dataclass(frozen=True)
class Value:
    """One thing that a user may set."""

    path: str
    default: Any
    description: str
    constraints: dict[str, Any] = field(default_factory=dict)
    """Keywords of JSON Schema."""
    fields: tuple["Value", ...] = ()
    """What an object consists of; empty where it is one value to the user."""

    @property
    def name(self) -> str:
        """The last word of the path."""
        return self.path.rpartition(".")[2]


def described_values(text: str) -> list[Value]:
    """All values without fields of their own, in their order.

    Raises:
        UndescribedValueError: one of them has no comment.
    """
    return list(_leaves(value_tree(text)))


def value_tree(text: str) -> tuple[Value, ...]:
    """The values at the top, with their fields. An object whose fields have comments needs none itself.

    Raises:
        UndescribedValueError: a value without fields has no comment.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # noqa: S101 - for the type checker
    return tuple(_values(root, yaml.safe_load(text), text.splitlines(), ""))


def _leaves(values: Iterable[Value]) -> Iterator[Value]:
    for value in values:
        if value.fields:
            yield from _leaves(value.fields)
        else:
            yield value


def _values(node: yaml.MappingNode, defaults: dict[str, Any], lines: list[str], prefix: str) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        default = defaults[key.value]
        description, constraints = _comment_above(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and not value.flow_style and _has_comments(value, lines):
            fields = tuple(_values(value, default, lines, f"{path}."))
            yield Value(path, default, description, constraints, fields)
        elif description:
            yield Value(path, default, description, constraints)
        else:
            raise UndescribedValueError(f"{path} has no comment above it in values.yaml")


def _has_comments(node: yaml.MappingNode, lines: list[str]) -> bool:
    return any(_comment_above(lines, key.start_mark.line)[0] for key, _ in node.value)


def _comment_above(lines: list[str], line: int) -> tuple[str, dict[str, Any]]:
    """What it says, and its constraints."""
    words: list[str] = []
    constraints: dict[str, Any] = {}
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        comment = lines[line].lstrip().removeprefix("#").strip()
        if comment.startswith(_CONSTRAINTS):
            constraints |= yaml.safe_load(comment.removeprefix(_CONSTRAINTS))
        else:
            words.insert(0, comment)
    return " ".join(words), constraints
