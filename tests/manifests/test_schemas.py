# SPDX-License-Identifier: Apache-2.0
"""Manifests for tools that don't run here fit the tools' own schemas."""

from typing import Any

import pytest

from tests.manifests.checking import documents, files, problems

FILES = tuple(files("eks", "argocd", "scaling", "gateway"))
OBJECTS = [(path, number) for path in FILES for number in range(len(documents(path)))]


@pytest.mark.parametrize(("path", "number"), OBJECTS, ids=[f"{path}-{number}" for path, number in OBJECTS])
def test_every_object_fits_the_schema_of_its_kind(path: str, number: int) -> None:
    assert problems(documents(path)[number]) == []


@pytest.mark.parametrize("path", FILES)
def test_a_field_that_the_kind_does_not_know_is_noticed(path: str) -> None:
    for manifest in documents(path):
        for parent, name in list(_fields(manifest)):
            parent["mispelled"] = parent.pop(name)
            assert problems(manifest) != []
            parent[name] = parent.pop("mispelled")


def _fields(manifest: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """One field of the object itself, and the first of its spec or of its node groups."""
    inner = manifest.get("spec") or next(iter(manifest.get("managedNodeGroups", ())), None)
    own = (manifest, "spec" if "spec" in manifest else "metadata")
    return [own, (inner, next(iter(inner)))] if inner else [own]
