# SPDX-License-Identifier: Apache-2.0
"""The user's pod template, merged strategically over the generated one, as `kubectl patch` would.

Maps are merged key by key and `null` removes a key. Lists whose elements have an identity are merged by it, tolerations
are added, other lists are replaced. `$patch: delete` in a map or in an element of such a list removes it, `$patch: replace`
in a map replaces what it meets.
"""

from collections.abc import Mapping
from typing import Any, Final

from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.types import Manifest

MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "claims": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""What identifies an element of a list in a pod template (patchMergeKey in Kubernetes' API), by the list's field name."""

_APPENDED: Final = frozenset({"tolerations"})
_ONE_OF: Final = frozenset({"volumes", "env"})
"""Lists whose elements say one of several things: an element of another kind replaces the generated one."""
_FREE: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits"})
"""Maps whose keys are no fields: a label may be named `env`."""
_DIRECTIVE: Final = "$patch"
_OWNED_PREFIX: Final = "tandem.dev/"


def overlaid(template: Manifest, overlay: Manifest, *, field: str, needs: str) -> dict[str, Any]:
    """The template with the overlay's changes. Both are left as they are.

    Args:
        template: the generated pod template.
        overlay: `metadata` and `spec` of the user's; empty for none.
        field: the overlay's path in the resource, for errors.
        needs: the container that must still be there afterwards.

    Raises:
        InvalidSpec: when the overlay's shape doesn't fit, or it changes what Tandem relies on.
    """
    _check_outline(template, overlay, field)
    merged = _merge_maps(template, overlay, field)
    names = [container["name"] for container in merged.get("spec", {}).get("containers", [])]
    if needs not in names:
        raise InvalidSpec(f"{field}.spec.containers", f"must keep the container {needs!r}")
    return merged


def _check_outline(template: Manifest, overlay: Manifest, field: str) -> None:
    for name in sorted(overlay.keys() - {"metadata", "spec"}):
        raise InvalidSpec(f"{field}.{name}", "is no field of a pod template; use metadata and spec")
    metadata = overlay.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidSpec(f"{field}.metadata", "must be a map")
    for name in sorted(metadata.keys() - {"labels", "annotations"}):
        raise InvalidSpec(f"{field}.metadata.{name}", "only labels and annotations of a pod can be chosen")
    for kind in ("labels", "annotations"):
        entries = metadata.get(kind, {})
        if not isinstance(entries, dict):
            raise InvalidSpec(f"{field}.metadata.{kind}", "must be a map")
        generated = template["metadata"].get(kind, {})
        for name, value in entries.items():
            if name in generated or name.startswith((_OWNED_PREFIX, "$")):
                raise InvalidSpec(f"{field}.metadata.{kind}[{name}]", "is Tandem's; choose another name")
            if not isinstance(value, str):
                raise InvalidSpec(f"{field}.metadata.{kind}[{name}]", "must be text; put it in quotes")


def _merge_maps(base: Mapping[str, Any], over: Mapping[str, Any], field: str, *, free: bool = False) -> dict[str, Any]:
    """The two as one; in a `free` map keys are the user's words, not names of fields."""
    match over.get(_DIRECTIVE):
        case None:
            merged = dict(base)
        case "replace":
            merged = {}
        case other:
            raise InvalidSpec(
                f"{field}.{_DIRECTIVE}", f"{other!r} is not supported here; use replace, or null for a key"
            )
    for name, value in over.items():
        if name == _DIRECTIVE:
            continue
        if name.startswith("$"):
            raise InvalidSpec(f"{field}.{name}", "only $patch is supported")
        if value is None or (isinstance(value, dict) and value.get(_DIRECTIVE) == "delete"):
            merged.pop(name, None)
        else:
            merged[name] = _merge_values("" if free else name, merged.get(name), value, f"{field}.{name}")
    return merged


def _merge_values(name: str, base: Any, over: Any, field: str) -> Any:
    """`name` is empty when it says nothing about the value's type."""
    if name in MERGE_KEYS or name in _APPENDED:
        if not isinstance(over, list):
            raise InvalidSpec(field, "must be a list")
        return _merge_lists(name, base or [], over, field)
    if base is not None and _shape(base) != _shape(over):
        raise InvalidSpec(field, f"must be {_shape(base)}")
    if isinstance(over, dict):
        return _merge_maps(base or {}, over, field, free=name in _FREE)
    return over


def _shape(value: Any) -> str:
    return "a map" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a single value"


def _merge_lists(name: str, base: list[Any], over: list[Any], field: str) -> list[Any]:
    for index, element in enumerate(over):
        if not isinstance(element, dict):
            raise InvalidSpec(f"{field}[{index}]", "must be a map")
    if name in _APPENDED:
        return [*base, *(element for element in over if element not in base)]
    key = MERGE_KEYS[name]
    merged = {element[key]: element for element in base}
    for index, element in enumerate(over):
        identity = element.get(key)
        if not isinstance(identity, str | int):
            raise InvalidSpec(f"{field}[{index}].{key}", "is missing: it tells which element is meant")
        at = f"{field}[{identity}]"
        match element.get(_DIRECTIVE):
            case "delete":
                merged.pop(identity, None)
            case _ if name in _ONE_OF and _says_otherwise(merged.get(identity, {}), element, key):
                merged[identity] = _merge_maps({}, element, at)
            case _:
                merged[identity] = _merge_maps(merged.get(identity, {}), element, at)
    return list(merged.values())


def _says_otherwise(base: Mapping[str, Any], over: Mapping[str, Any], key: str) -> bool:
    """Whether the two set different alternatives, as `emptyDir` and `hostPath` of a volume, `value` and `valueFrom` of `env`."""
    chosen = {name for name, value in over.items() if value is not None} - {key}
    return bool(chosen) and not chosen & base.keys()
