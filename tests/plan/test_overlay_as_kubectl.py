# SPDX-License-Identifier: Apache-2.0
"""What kubectl makes of a strategic merge patch is what becomes of an overlay, or the overlay is refused."""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
from hypothesis import event, given, settings

from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.strategic import FREE_MAPS, JOINED, MERGE_KEYS, patched
from tests.builders import a_resource
from tests.plan.kubectl_patch import KubectlRefuses, as_kubectl_patches
from tests.plan.made import template
from tests.plan.overlays import SPECS

TEMPLATES: Final = (
    template(a_resource()),
    template(a_resource().on("p5en.48xlarge").with_tensor(8)),
    template(a_resource().pulling()),
)

_REFUSED_HERE: Final = (
    "is missing: it tells which element is meant",
    "there is nothing here to replace",
    "must name",
)
"""Of what kubectl takes: lists without the key that they are merged by, and directives that it ignores or leaves in the object."""


def ours(base: Any, overlay: Any) -> Any:
    before = deepcopy((base, overlay))
    try:
        return patched(base, overlay, "podTemplate")
    finally:
        assert (base, overlay) == before, "neither side is changed"


def ours_or_refusal(base: Any, overlay: Any) -> Any:
    try:
        return ours(base, overlay)
    except InvalidSpec as refusal:
        return refusal


@given(spec=SPECS)
@settings(max_examples=100, deadline=None)
def test_any_overlay_gives_what_kubectl_gives(spec: dict[str, Any]) -> None:
    overlay = {"spec": spec}
    found = [ours_or_refusal(base, overlay) for base in TEMPLATES]
    try:
        expected = as_kubectl_patches(TEMPLATES, overlay)
    except KubectlRefuses:
        event("kubectl refuses")
        assert any(isinstance(result, InvalidSpec) for result in found)
        return
    # Go deletes in the array that it takes the former order from, so kubectl's order of both at once is an accident.
    seen = _sorted if "$setElementOrder" in str(spec) and "delete" in str(spec) else deepcopy
    for result, by_kubectl in zip(found, expected, strict=True):
        if isinstance(result, InvalidSpec):
            event("refused here only")
            assert result.remedy.startswith(_REFUSED_HERE)
        else:
            event("merged")
            assert seen(result) == seen(by_kubectl)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


ENGINE: Final = {"name": "engine"}
WRITTEN: Final[dict[str, Any]] = {
    "a sidecar": {
        "containers": [{"name": "log", "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}]
    },
    "variables, of which some are there": {
        "containers": [{**ENGINE, "env": [{"name": "Z", "value": "1"}, {"name": "TANDEM_ROLE", "value": "x"}]}]
    },
    "an order of containers": {
        "containers": [{"name": "log", "image": "x"}],
        "$setElementOrder/containers": [ENGINE, {"name": "log"}],
    },
    "an order of what stays": {"$setElementOrder/volumes": [{"name": "shm"}, {"name": "connector"}]},
    "an order of single values": {
        "initContainers": [{"name": "connector", "$setElementOrder/args": ["/opt/tandem/connector"]}]
    },
    "another source of a volume": {
        "volumes": [{"name": "shm", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/dev/shm"}}]
    },
    "a source removed by null": {"volumes": [{"name": "shm", "emptyDir": None, "hostPath": {"path": "/dev/shm"}}]},
    "a word of the command removed": {
        "containers": [{**ENGINE, "$deleteFromPrimitiveList/command": ["sh", "unknown"]}]
    },
    "words removed where there are none": {"containers": [{**ENGINE, "$deleteFromPrimitiveList/args": ["sh"]}]},
    "all variables replaced": {"containers": [{**ENGINE, "env": [{"$patch": "replace"}, {"name": "Z", "value": "1"}]}]},
    "tolerations, which are replaced": {"tolerations": [{"key": "spot", "operator": "Exists"}]},
    "a whole map removed": {"affinity": None},
    "a whole map emptied": {"containers": [{**ENGINE, "securityContext": {"$patch": "delete"}}]},
    "finalizers of a volume's claim": {
        "volumes": [
            {"name": "disk", "ephemeral": {"volumeClaimTemplate": {"metadata": {"finalizers": ["b/b", "a/a"]}}}},
        ]
    },
}


@pytest.mark.parametrize("spec", WRITTEN.values(), ids=WRITTEN)
def test_each_kind_of_change_gives_what_kubectl_gives(spec: dict[str, Any]) -> None:
    expected = as_kubectl_patches(TEMPLATES, {"spec": spec})

    assert [ours(base, {"spec": spec}) for base in TEMPLATES] == expected


def test_lists_of_single_values_with_merge_strategy_are_joined_as_kubectl_does() -> None:
    def claimed(finalizers: list[str], **order: Any) -> dict[str, Any]:
        metadata = {"finalizers": finalizers, **order}
        return {"spec": {"volumes": [{"name": "disk", "ephemeral": {"volumeClaimTemplate": {"metadata": metadata}}}]}}

    base = ours(TEMPLATES[0], claimed(["a/a", "b/b"]))
    for change in (
        claimed(["c/c", "b/b"]),
        claimed(["c/c"], **{"$setElementOrder/finalizers": ["b/b", "c/c", "a/a"]}),
    ):
        assert [ours(base, change)] == as_kubectl_patches([base], change)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{**ENGINE, "env": [{"name": "A", "$patch": "merge"}]}]},
        {"nodeSelector": {"$patch": "merge"}},
        {"containers": [{"image": "x"}]},
        {"volumes": [{"name": "shm", "$retainKeys": ["name"], "hostPath": {"path": "/x"}}]},
        {"volumes": [{"name": "shm", "$retainKeys": "name"}]},
        {"$setElementOrder/containers": [{"name": "log"}], "containers": [ENGINE]},
        {"$setElementOrder/containers": "engine"},
    ],
    ids=str,
)
def test_what_kubectl_refuses_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(KubectlRefuses):
        as_kubectl_patches(TEMPLATES[1:2], {"spec": spec})
    with pytest.raises(InvalidSpec):
        ours(TEMPLATES[1], {"spec": spec})


def test_merge_keys_and_free_maps_are_those_of_kubernetes_own_schema() -> None:
    keys: dict[str, set[str | None]] = {}
    joined, free = set(), set()
    for name, each in _fields("io.k8s.api.core.v1.PodTemplateSpec", set()):
        merges = "merge" in each.get("x-kubernetes-patch-strategy", "")
        if "array" in each.get("type", ()):
            keys.setdefault(name, set()).add(each.get("x-kubernetes-patch-merge-key"))
            joined |= {name} if merges and not each.get("x-kubernetes-patch-merge-key") else set()
        if isinstance(each.get("additionalProperties"), dict):
            free.add(name)

    assert [name for name, found in keys.items() if len(found) > 1] == [], "a name says which list is meant"
    assert {name: key for name, (key,) in keys.items() if key} == MERGE_KEYS
    assert joined == JOINED
    assert free == FREE_MAPS


def _fields(definition: str, seen: set[str]) -> Iterator[tuple[str, Any]]:
    """All fields of a type, and of the types of its fields."""
    if definition in seen:
        return
    seen.add(definition)
    for name, each in _definitions()[definition].get("properties", {}).items():
        yield name, each
        for inner in (each, each.get("items", {})):
            if "$ref" in inner:
                yield from _fields(inner["$ref"].rpartition("/")[2], seen)


@cache
def _definitions() -> dict[str, Any]:
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    found: dict[str, Any] = json.loads((folder / "v1.37.0-local" / "_definitions.json").read_text())["$defs"]
    return found
