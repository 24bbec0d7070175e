# SPDX-License-Identifier: Apache-2.0
from typing import Annotated, Any

import pytest
from pydantic import Field

from tandem_operator.api.base import ApiModel
from tandem_operator.api.schema import UnsupportedSchemaError, structural_schema


class Inner(ApiModel):
    """Says the type."""

    some_count: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 1
    """How many."""


class Outer(ApiModel):
    """The whole."""

    plain: Inner
    described: Inner | None = None
    """Says the field."""
    open_object: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=8)] | None = None


def test_references_unions_with_null_titles_and_defaults_are_gone() -> None:
    inner = {
        "type": "object",
        "properties": {
            "someCount": {"description": "How many.", "type": "integer", "format": "int32", "minimum": 0},
        },
    }

    assert structural_schema(Outer) == {
        "description": "The whole.",
        "type": "object",
        "properties": {
            "plain": {"description": "Says the type."} | inner,
            "described": {"description": "Says the field."} | inner,
            "openObject": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "labels": {
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 63},
                "maxProperties": 8,
            },
        },
        "required": ["plain", "openObject"],
    }


def test_a_union_of_two_types_is_refused_with_its_place() -> None:
    class Either(ApiModel):
        value: int | str

    with pytest.raises(UnsupportedSchemaError, match=r"Either\.value may have one of several types"):
        structural_schema(Either)


class Recursive(ApiModel):
    again: "Recursive | None" = None


class HasRecursive(ApiModel):
    recursive: Recursive


def test_a_model_in_itself_is_refused_with_its_place() -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"HasRecursive\.recursive\.again refers to Recursive"):
        structural_schema(HasRecursive)


def test_a_field_of_any_type_is_refused_with_its_place() -> None:
    class Anything(ApiModel):
        value: Any

    with pytest.raises(UnsupportedSchemaError, match=r"Anything\.value has no single type"):
        structural_schema(Anything)
