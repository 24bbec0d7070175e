# SPDX-License-Identifier: Apache-2.0
"""Whether an object fits Kubernetes' own schema, of which the definitions are read and indexed once."""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

OF_OTHERS = {"CustomResourceDefinition", "PodMonitor", "PrometheusRule", "ServiceMonitor"}
"""Kinds of which there is no schema here; the API server judges the first in end-to-end tests."""


def faults(manifest: Mapping[str, Any], version: str) -> list[str]:
    """What Kubernetes of this version (`1.34`) would not know or take."""
    if manifest["kind"] in OF_OTHERS:
        return []
    # `rbac.authorization.k8s.io/v1` is in a file `rbac-v1`.
    group_version = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", manifest["apiVersion"])
    validator = _validator(f"{manifest['kind'].lower()}-{group_version}.json", version)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]


@cache
def _validator(file: str, version: str) -> Draft202012Validator:
    return Draft202012Validator(_contents(file, version), registry=_definitions(version))


@cache
def _definitions(version: str) -> Registry[Any]:
    return (Resource.from_contents(_contents("_definitions.json", version)) @ Registry()).crawl()


def _contents(file: str, version: str) -> Any:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    return json.loads((folder / file).read_text(encoding="utf-8"))
