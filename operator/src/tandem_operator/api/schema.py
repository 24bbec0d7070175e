# SPDX-License-Identifier: Apache-2.0
"""From a pydantic model to the kind of schema that a CustomResourceDefinition takes.

Kubernetes wants a *structural* schema: no references, no unions, one type at every place, and no `additionalProperties`
beside `properties` (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/).
Pydantic's JSON schema has references, `T or null` unions and titles; everything else carries over.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

Schema = dict[str, Any]

_DROPPED: Final = frozenset({"title", "default", "$defs", "discriminator"})
"""`default` too: what is absent in the stored object stays absent, so that GitOps tools see no difference."""

_ORDER: Final = ("description", "type", "format", "enum", "pattern")
"""Keywords that come first in the generated text; the others follow as pydantic gives them."""

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
"""The one union that a structural schema has."""


class UnsupportedSchemaError(ValueError):
    """A model has something that a structural schema cannot say; the text names the place."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of `model`, by its wire names.

    Raises:
        UnsupportedSchemaError: the model refers to itself, or has a union of more than one type.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _structural(schema, schema.get("$defs", {}), at=model.__name__, inside=())


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any], at: str, inside: tuple[str, ...]) -> Schema:
    node, inside = _without_indirection(node, definitions, at, inside)
    result: Schema = {}
    for keyword, value in node.items():
        match keyword:
            case _ if keyword in _DROPPED:
                pass
            case "properties":
                result["properties"] = {
                    name: _structural(each, definitions, f"{at}.{name}", inside) for name, each in value.items()
                }
            case "items":
                result["items"] = _structural(value, definitions, f"{at}[]", inside)
            case "additionalProperties":
                if isinstance(value, Mapping):
                    result[keyword] = _structural(value, definitions, f"{at}.*", inside)
            case "const":
                result["enum"] = [value]
            case _:
                result[keyword] = value
    if "type" not in result and _INT_OR_STRING not in result:
        raise UnsupportedSchemaError(f"{at} has no single type; a structural schema needs one")
    return {key: result[key] for key in sorted(result, key=_rank)}


def _without_indirection(
    node: Mapping[str, Any], definitions: Mapping[str, Any], at: str, inside: tuple[str, ...]
) -> tuple[Schema, tuple[str, ...]]:
    """`node` with its reference and its `or null` replaced by what they mean, and the references followed so far.

    What the field itself says (its description above all) wins over what the referred type says.
    """
    flat = dict(node)
    while ("$ref" in flat or "anyOf" in flat) and _INT_OR_STRING not in flat:
        if "$ref" in flat:
            name = flat.pop("$ref").rsplit("/", 1)[-1]
            if name in inside:
                raise UnsupportedSchemaError(f"{at} refers to {name}, which contains itself")
            inside = (*inside, name)
            flat = {**definitions[name], **flat}
        else:
            options = [option for option in flat.pop("anyOf") if option != {"type": "null"}]
            if len(options) != 1:
                raise UnsupportedSchemaError(f"{at} may have one of several types; a structural schema has one")
            flat = {**options[0], **flat}
    return flat, inside


def _rank(keyword: str) -> int:
    return _ORDER.index(keyword) if keyword in _ORDER else len(_ORDER)
