# SPDX-License-Identifier: Apache-2.0
"""A revision: the pods of both roles as one configuration makes them, which start, serve and go together.

Its name is a hash of what was rendered. It is rendered once and then kept in the cluster, as a ControllerRevision, so that the same
pods can be made again when the spec says something else (to go back to it), or when another version of the operator would render
something else (which must restart nobody).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem_connector.contract.environment import SIDE_CHANNEL_PORT
from tandem_connector.contract.types import Role
from tandem_operator.api.names import DATA_LABEL
from tandem_operator.api.spec import Spec
from tandem_operator.plan.scaling import Numbers
from tandem_operator.plan.types import Manifest

ENGINE_CONTAINER: Final = "engine"
SIDE_CHANNEL_PORT_NAME: Final = "side-channel"

_OF_ENGINES: Final = ("model", "engine", "accelerator", "prefill", "decode", "transfer", "placement")
"""Parts of the spec of which a change needs new engines, but for what `_NOT_OF_ENGINES` names."""
_NOT_OF_ENGINES: Final = {
    "prefill": ("replicas", "autoscaling"),
    "decode": ("replicas", "autoscaling"),
    "transfer": ("peersPerDecode",),
}


@dataclass(frozen=True)
class Part:
    """One role's share of a revision."""

    template: Manifest
    """Of the pods."""
    launch: Mapping[str, str] | None
    """Data of the ConfigMap with the launch script; None where it isn't known any more."""
    gpus: int
    """Of one pod."""


@dataclass(frozen=True)
class Revision:
    """Both roles' pods as one configuration makes them."""

    name: str
    """10 hexadecimal digits."""
    parts: Mapping[Role, Part]
    given: str
    """Hash of the part of the spec that it was rendered from."""
    beside: str
    """Revisions with the same one may take turns beside each other: a client doesn't notice which one answers."""
    number: int = 1
    """How many revisions of the resource there were when it was made, itself included, as far as is known."""
    is_recorded: bool = True
    """Its ControllerRevision is there, or to be made. Else it is only known from its sets."""
    was_complete: bool = False
    """All of its engines were ready at one time."""
    given_up: str | None = None
    """Why it was rolled back; None while it wasn't."""

    @property
    def gpus(self) -> Numbers:
        """Of one pod of each role."""
        return Numbers.by(lambda role: self.parts[role].gpus)

    @property
    def exchanges(self) -> bool:
        """Whether its engines use `Push`."""
        return side_channel_port(self.parts[Role.DECODE].template) != SIDE_CHANNEL_PORT

    @property
    def ranks(self) -> int:
        """Data-parallel ranks of a decode pod."""
        labels = self.parts[Role.DECODE].template.get("metadata", {}).get("labels") or {}
        ranks = labels.get(DATA_LABEL, "1")
        return int(ranks) if ranks.isdecimal() else 1


def hash_of(value: Any) -> str:
    """10 hexadecimal digits of SHA-256 over a JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def given_of(spec: Spec) -> str:
    """Hash of what the user says of engines. What another version of the operator makes of it, and its defaults, are no part of it."""
    wire = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    parts = {
        name: {key: value for key, value in wire[name].items() if key not in _NOT_OF_ENGINES.get(name, ())}
        for name in _OF_ENGINES
        if name in wire
    }
    timeout = spec.scaling.drain.timeout if spec.scaling and spec.scaling.drain else None
    return hash_of([{name: part for name, part in parts.items() if part}, timeout])


def side_channel_port(pod: Manifest) -> int | None:
    """Where the engine of a pod, or of a pod template, listens for its peers."""
    containers = pod.get("spec", {}).get("containers") or ()
    ports = (port for each in containers if each["name"] == ENGINE_CONTAINER for port in each.get("ports") or ())
    return next((port["containerPort"] for port in ports if port.get("name") == SIDE_CHANNEL_PORT_NAME), None)
