# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' strategic merge patch of a pod template, with the results of `kubectl patch --type=strategic`.

Source: apimachinery's `pkg/util/strategicpatch/patch.go` (v0.35). Maps are merged key by key, and `null` removes a key. A list
with a merge key is merged element by element, other lists are replaced. Directives:

* `$patch: delete` or `replace` in a map, or in an element of a list with a merge key;
* `$retainKeys: [...]` in a map: all other keys go;
* `$setElementOrder/LIST: [...]` beside a list: the order of its elements;
* `$deleteFromPrimitiveList/LIST: [...]` beside a list of single values: those that go.

Where kubectl takes what makes no sense (a map in place of a list), leaves directives in the object or drops values without a word,
the patch is refused here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tandem_operator.plan.errors import InvalidSpec

MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "evictionResponders": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
}
"""What identifies an element of a list in a pod template (`patchMergeKey` in Kubernetes' API), by the list's field name."""
JOINED: Final = frozenset({"finalizers"})
"""Lists of single values that are merged."""
FREE_MAPS: Final = frozenset(
    {"labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits", "overhead"}
    | {"options", "volumeAttributes", "userAnnotations"}
)
"""Maps whose keys are no fields: a label may be named `env`."""

PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"

_Map = Mapping[str, Any]
_Identity = Callable[[Any], Any]


def patched(base: _Map, patch: _Map, field: str) -> dict[str, Any]:
    """The base with the patch's changes; both are left as they are.

    Args:
        base: a pod template without `null` and without directives.
        patch: what to change.
        field: the patch's path in the resource, for errors.

    Raises:
        InvalidSpec: the patch is none of this base, or says what kubectl can't do either.
    """
    return _merge_maps(base, patch, field)


def _merge_maps(base: _Map, patch: _Map, field: str, *, free: bool = False) -> dict[str, Any]:
    """The two as one; in a `free` map keys are the user's words, not names of fields."""
    if PATCH in patch:
        return _replaced(patch, field, free=free)
    merged = _retained(base, patch, field)
    for name in _changed(patch, field):
        at = f"{field}.{name}"
        here = "" if free else name
        if _DELETE_FROM + name in patch:
            _delete_from(merged, name, patch, field)
        elif name not in patch:
            _only_order(merged, here, name, patch, field)
        elif patch[name] is None or (name not in merged and _is_deleted(patch[name])):
            merged.pop(name, None)
        elif name not in merged:
            merged[name] = _new(here, patch[name], patch.get(_ORDER + name), at)
        else:
            merged[name] = _merge_values(here, merged[name], patch[name], patch.get(_ORDER + name), at)
    return merged


def _replaced(patch: _Map, field: str, *, free: bool) -> dict[str, Any]:
    match patch[PATCH]:
        case "delete":
            return {}
        case "replace":
            rest = {name: value for name, value in patch.items() if name != PATCH}
            return _merge_maps({}, rest, field, free=free)
        case other:
            raise InvalidSpec(f"{field}.{PATCH}", f"{other!r} is not supported; use delete or replace")


def _retained(base: _Map, patch: _Map, field: str) -> dict[str, Any]:
    if _RETAIN not in patch:
        return dict(base)
    kept = _list(patch[_RETAIN], f"{field}.{_RETAIN}")
    for name, value in patch.items():
        if value is not None and not name.startswith("$") and name not in kept:
            raise InvalidSpec(f"{field}.{_RETAIN}", f"must name {name}, which is set beside it")
    return {name: value for name, value in base.items() if name in kept}


def _changed(patch: _Map, field: str) -> Iterator[str]:
    """Names of all that the patch says something about, once each."""
    names: dict[str, None] = {}
    for name in patch:
        if name.startswith((_ORDER, _DELETE_FROM)):
            names[name.partition("/")[2]] = None
        elif not name.startswith("$"):
            names[name] = None
        elif name != _RETAIN:
            known = f"{PATCH}, {_RETAIN}, {_ORDER}LIST and {_DELETE_FROM}LIST"
            raise InvalidSpec(f"{field}.{name}", f"is no directive of a strategic merge patch, which are {known}")
    yield from names


def _is_deleted(value: Any) -> bool:
    return isinstance(value, dict) and value.get(PATCH) == "delete"


def _new(name: str, value: Any, order: Any, field: str) -> Any:
    """What is set where nothing was."""
    if isinstance(value, dict) and name not in MERGE_KEYS:
        if PATCH in value and value[PATCH] != "delete":
            raise InvalidSpec(f"{field}.{PATCH}", "there is nothing here to replace; leave it out")
        return _merge_maps({}, value, field, free=name in FREE_MAPS)
    return _merge_values(name, None, value, order, field)


def _merge_values(name: str, base: Any, patch: Any, order: Any, field: str) -> Any:
    """`name` is empty when it says nothing about the value's type; the base is None where there is none."""
    if name in MERGE_KEYS or name in JOINED:
        _list(patch, field)
    elif base is not None and _shape(base) != _shape(patch):
        raise InvalidSpec(field, f"must be {_shape(base)}")
    if isinstance(patch, dict):
        return _merge_maps(base, patch, field, free=name in FREE_MAPS)
    if not isinstance(patch, list):
        return patch
    if name in MERGE_KEYS:
        merged = _merge_elements(base, patch, MERGE_KEYS[name], field)
    elif name in JOINED:
        merged = _in_order(list(dict.fromkeys([*(base or ()), *patch])), patch, base or (), _itself)
    else:
        merged = [_cleaned(element, f"{field}[{index}]") for index, element in enumerate(patch)]
    return merged if order is None else _set_order(name, merged, base or (), patch, order=order, field=field)


def _shape(value: Any) -> str:
    return "a map" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a single value"


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidSpec(field, "must be a list")
    return value


def _cleaned(element: Any, field: str) -> Any:
    """An element of a list that is replaced whole."""
    return _merge_maps({}, element, field) if isinstance(element, dict) else element


def _merge_elements(base: Sequence[Any] | None, patch: Sequence[Any], key: str, field: str) -> list[Any]:
    identity = _by(key)
    kept: list[Any] = list(base or ())
    changes = []
    replaces = False
    for index, element in enumerate(patch):
        if not isinstance(element, dict):
            raise InvalidSpec(f"{field}[{index}]", "must be a map")
        replaces = replaces or element.get(PATCH) == "replace"
        if element.get(PATCH) == "replace":
            continue
        if not isinstance(element.get(key), str | int):
            raise InvalidSpec(f"{field}[{index}].{key}", "is missing: it tells which element is meant")
        if element.get(PATCH) == "delete":
            kept = [each for each in kept if identity(each) != element[key]]
        else:
            changes.append(element)
    if replaces or base is None:
        # As they are: two ports of one number may differ in their protocol.
        return [_merge_maps({}, change, f"{field}[{change[key]}]") for change in changes]
    before = list(kept)
    for change in changes:
        at = f"{field}[{change[key]}]"
        found = next((index for index, each in enumerate(kept) if identity(each) == change[key]), None)
        if found is None:
            kept.append(_merge_maps({}, change, at))
        else:
            kept[found] = _merge_maps(kept[found], change, at)
    return _in_order(kept, changes, before, identity)


def _by(key: str) -> _Identity:
    return lambda element: element.get(key)


def _itself(element: Any) -> Any:
    return element


def _in_order(merged: Sequence[Any], first: Sequence[Any], base: Sequence[Any], identity: _Identity) -> list[Any]:
    """Those of `first` in its order, with the others between them where the base's order allows it, else behind them."""
    wanted, before = [identity(each) for each in first], [identity(each) for each in base]
    right = sorted((each for each in merged if identity(each) in wanted), key=lambda each: wanted.index(identity(each)))
    left = [each for each in merged if identity(each) not in wanted]
    ordered = []
    for element in right:
        while left and _is_before(identity(left[0]), identity(element), before):
            ordered.append(left.pop(0))
        ordered.append(element)
    return [*ordered, *left]


def _is_before(one: Any, other: Any, order: Sequence[Any]) -> bool:
    return one in order and other in order and order.index(one) < order.index(other)


def _set_order(
    name: str, merged: Sequence[Any], base: Sequence[Any], patch: Sequence[Any], *, order: Any, field: str
) -> list[Any]:
    """The merged list in the order that `$setElementOrder` gives."""
    where = f"{field.rpartition('.')[0]}.{_ORDER}{field.rpartition('.')[2]}"
    wanted = _list(order, where)
    if name in MERGE_KEYS:
        identity = _by(MERGE_KEYS[name])
        if not all(isinstance(each, dict) and identity(each) is not None for each in wanted):
            raise InvalidSpec(where, f"each of its elements must have {MERGE_KEYS[name]}")
    elif any(isinstance(each, dict | list) for each in (*merged, *wanted)):
        raise InvalidSpec(where, "elements of this list cannot be told apart; write the whole list")
    else:
        identity = _itself
    rest = iter([identity(each) for each in wanted])
    for element in patch:
        if not (isinstance(element, dict) and PATCH in element) and identity(element) not in rest:
            raise InvalidSpec(where, f"must name {identity(element)!r}, and in the order of the list beside it")
    return _in_order(merged, wanted, base, identity)


def _only_order(merged: dict[str, Any], here: str, name: str, patch: _Map, field: str) -> None:
    """Put a list in order that is otherwise as it was."""
    if name in merged:
        base = _list(merged[name], f"{field}.{name}")
        merged[name] = _set_order(here, base, base, [], order=patch[_ORDER + name], field=f"{field}.{name}")


def _delete_from(merged: dict[str, Any], name: str, patch: _Map, field: str) -> None:
    where = f"{field}.{_DELETE_FROM}{name}"
    if name in patch or _ORDER + name in patch:
        raise InvalidSpec(where, f"{name} is changed beside it too, and either could come first; write the whole list")
    unwanted = _list(patch[_DELETE_FROM + name], where)
    base = _list(merged.get(name, []), f"{field}.{name}")
    if any(isinstance(each, dict | list) for each in (*base, *unwanted)):
        raise InvalidSpec(where, "only single values can be deleted so; use $patch: delete in the element")
    if name in merged:
        merged[name] = [each for each in base if each not in unwanted]
