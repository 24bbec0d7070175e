# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an object, by the schema of its kind: unknown fields count, as an API server with strict validation has it."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import yaml
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from tandem_operator.api.crd import DEFINITIONS

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
SCHEMAS: Final = Path(__file__).parent / "schemas"
KUBERNETES: Final = "1.35"
Manifest = dict[str, Any]


def documents(path: str) -> list[Manifest]:
    """The objects of a file under `manifests/`."""
    return [each for each in yaml.safe_load_all((MANIFESTS / path).read_text()) if each]


def of_kind(path: str, kind: str) -> Manifest:
    """The only object of the kind in a file."""
    [found] = [each for each in documents(path) if each["kind"] == kind]
    return found


def problems(manifest: Mapping[str, Any]) -> list[str]:
    """All that its schema says against the object, each with its path."""
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    if schema := _schemas().get((api_version, kind)):
        errors = validator_for(schema, Draft202012Validator)(schema).iter_errors(manifest)
        return [f"{error.json_path}: {error.message}" for error in errors]
    try:
        kubernetes_validate.validate(dict(manifest), KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    return []


@cache
def definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of other projects."""
    return tuple(json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.*.json")))


@cache
def _schemas() -> dict[tuple[str, str], Manifest]:
    own = (definition.manifest() for definition in DEFINITIONS)
    found = dict(_served(definition) for definition in (*definitions(), *own))
    return {**found, ("eksctl.io/v1alpha5", "ClusterConfig"): json.loads((SCHEMAS / "eksctl.json").read_text())}


def _served(definition: Mapping[str, Any]) -> tuple[tuple[str, str], Manifest]:
    spec = definition["spec"]
    [version] = spec["versions"]
    schema = _closed(version["schema"]["openAPIV3Schema"])
    # Kubernetes' own part of every object, of which definitions say nothing.
    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    return (f"{spec['group']}/{version['name']}", spec["names"]["kind"]), schema


def _closed(schema: Any) -> Any:
    """With no fields but those that are named, where the schema doesn't allow others."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed_field(key, value) for key, value in schema.items()}
    opened = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not opened:
        closed["additionalProperties"] = False
    return closed


def _closed_field(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, dict):
        return {name: _closed(each) for name, each in value.items()}
    return _closed(value)


def files(*folders: str) -> Iterator[str]:
    """The files of manifests in these folders under `manifests/`; a chart's values are none."""
    for folder in folders:
        for path in sorted((MANIFESTS / folder).glob("*.yaml")):
            if not path.name.endswith(".values.yaml"):
                yield str(path.relative_to(MANIFESTS))
