# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own types as JSON Schema, closed to unknown fields, for values that go into a pod as they are."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from kubernetes_validate.utils import latest_version

Schema = dict[str, Any]

_REFERENCE = "#/$defs/"
_LEFT = {
    # What the Pod Security Standard `restricted` forbids, or what an operator without state has no use for.
    "Volume": {"configMap", "csi", "downwardAPI", "emptyDir", "name", "persistentVolumeClaim", "projected", "secret"},
}
"""The fields that are left of a type."""


def pod_types(names: Iterable[str]) -> dict[str, Schema]:
    """The types of these names (`Toleration`), and those that they refer to, in the order of their names.

    They are of the newest Kubernetes that the package knows: an older one refuses by itself what it doesn't have.

    Raises:
        KeyError: there is no such type.
    """
    found: dict[str, Schema] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _without_prose(_restricted(name, _definitions()[name]))
            waiting.extend(references(found[name]))
    return dict(sorted(found.items()))


def references(schema: object) -> Iterator[str]:
    """The names in `$defs` that a schema refers to."""
    match schema:
        case {"$ref": str(reference)}:
            yield reference.removeprefix(_REFERENCE)
        case dict():
            for each in schema.values():
                yield from references(each)
        case list():
            for each in schema:
                yield from references(each)


@cache
def _definitions() -> dict[str, Schema]:
    """The types by their last name, which those of other API groups share only among themselves."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{latest_version()}-local-strict"
    definitions: dict[str, Schema] = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    used = ("io.k8s.api.core.v1.", "io.k8s.api.networking.v1.", "io.k8s.apimachinery.pkg.")
    return {_last(name): schema for name, schema in definitions.items() if name.startswith(used)}


def _restricted(name: str, schema: Schema) -> Schema:
    if name not in _LEFT:
        return schema
    kept = {field: each for field, each in schema["properties"].items() if field in _LEFT[name]}
    return {**schema, "properties": kept}


def _without_prose(schema: Any) -> Any:
    match schema:
        case {"$ref": str(reference)}:
            return {"$ref": _REFERENCE + _last(reference)}
        case dict():
            # A field may be called `description` or `format` too, but then it holds a schema.
            return {
                key: _without_prose(each)
                for key, each in schema.items()
                if not (key in {"description", "format"} and isinstance(each, str)) and not key.startswith("x-")
            }
        case list():
            return [_without_prose(each) for each in schema]
    return schema


def _last(name: str) -> str:
    return name.rpartition(".")[2]
