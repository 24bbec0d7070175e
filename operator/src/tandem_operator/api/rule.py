# SPDX-License-Identifier: Apache-2.0
"""A rule that the API server checks, and how it is written into the schema."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Verdict(StrEnum):
    """What the API server calls the refusal."""

    INVALID = "FieldValueInvalid"
    """The field's value is wrong by itself."""
    FORBIDDEN = "FieldValueForbidden"
    """The value would be right beside other values."""


@dataclass(frozen=True)
class Rule:
    """What must hold in a resource."""

    holds: str
    """A CEL expression that is true for a valid resource; `self` is the model that has the rule."""
    message: str
    """What is wrong and what to do instead. `{name}` stands for a value of `values`; the field's path is not repeated,
    since the API server puts it in front."""
    at: str = ""
    """The field to blame, from the model on, as `.efa.perPod`; empty: the model itself."""
    values: Mapping[str, str] = field(default_factory=dict)
    """CEL expressions, by their name in the message."""
    verdict: Verdict = Verdict.FORBIDDEN

    def as_schema(self) -> dict[str, str]:
        """One entry of `x-kubernetes-validations`.

        A computed message has a fixed one beside it, which the API server falls back to when the computed one has a
        line break (from an argument, say), and which the reference shows.
        """
        entry = {"rule": self.holds, "message": _PLACEHOLDER.sub(r"<\1>", self.message)}
        if self.values:
            entry["messageExpression"] = _formatted(self.message, self.values)
        entry["reason"] = self.verdict.value
        if self.at:
            entry["fieldPath"] = self.at
        return entry


def rules(entries: Iterable[Rule]) -> dict[str, Any]:
    """The entries as `json_schema_extra` of a model."""
    return {"x-kubernetes-validations": [rule.as_schema() for rule in entries]}


def cel_text(value: str) -> str:
    """`value` as a CEL string literal."""
    return json.dumps(value)


def cel_map(values: Mapping[str, int | str]) -> str:
    """`values` as a CEL map literal."""
    return "{" + ", ".join(f"{cel_text(key)}: {json.dumps(value)}" for key, value in values.items()) + "}"


_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


def _formatted(template: str, values: Mapping[str, str]) -> str:
    # format() and not `+`: the API server estimates an expression's cost before it runs, and knows no bound for the
    # length of string(int), so that any sum with it is over the limit.
    names = _PLACEHOLDER.findall(template)
    text = _PLACEHOLDER.sub("%s", template.replace("%", "%%"))
    return f"{cel_text(text)}.format([{', '.join(values[name] for name in names)}])"
