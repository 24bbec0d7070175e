# SPDX-License-Identifier: Apache-2.0
"""The user's pod template, merged strategically over the generated one, as `kubectl patch` would."""

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.strategic import patched
from tandem_operator.plan.types import Manifest

_OWNED_PREFIX: Final = "tandem.dev/"
_HANDLERS: Final = frozenset({"exec", "httpGet", "grpc", "tcpSocket", "sleep"})
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_HOOKS: Final = ("postStart", "preStop")


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
    merged = patched(template, overlay, field)
    spec = merged.get("spec", {})
    names = [container["name"] for container in spec.get("containers", [])]
    if needs not in names:
        raise InvalidSpec(f"{field}.spec.containers", f"must keep the container {needs!r}")
    _check_alternatives(spec, f"{field}.spec")
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


def _check_alternatives(spec: Mapping[str, Any], field: str) -> None:
    """What says one of several things says one: a strategic merge keeps what was there beside what is added."""
    for at, chosen in _alternatives(spec, field):
        if len(chosen) > 1:
            raise InvalidSpec(
                at, f"has {' and '.join(sorted(chosen))}, of which only one can be; set the other to null"
            )


def _alternatives(spec: Mapping[str, Any], field: str) -> Iterator[tuple[str, Set[str]]]:
    """Path and alternatives of each element that says one of several things."""
    for volume in spec.get("volumes", []):
        yield f"{field}.volumes[{volume['name']}]", set(volume) - {"name"}
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind, []):
            at = f"{field}.{kind}[{container['name']}]"
            for variable in container.get("env", []):
                yield f"{at}.env[{variable['name']}]", set(variable) - {"name"}
            for probe in _PROBES:
                yield f"{at}.{probe}", _HANDLERS & set(_map(container, probe))
            for hook in _HOOKS:
                yield f"{at}.lifecycle.{hook}", _HANDLERS & set(_map(_map(container, "lifecycle"), hook))


def _map(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The map of that name; whatever else the user wrote there is for the API server to refuse."""
    value = of.get(name)
    return value if isinstance(value, dict) else {}
