# SPDX-License-Identifier: Apache-2.0
"""What planning takes and gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tandem_connector.contract.types import Role
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.api.scaler import ScalerStatus
from tandem_operator.api.status import Status
from tandem_operator.plan.target import Target
from tandem_operator.plan.verification import Report

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON. Never changed in place."""


class ObjectKey(NamedTuple):
    """Names one object in the resource's namespace."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True)
class Defaults:
    """What the installation decides, not the resource."""

    front_door_image: str
    connector_image: str
    namespace: str | None = None
    """Where the operator's pods run; None: it runs in no pod."""


@dataclass(frozen=True)
class Refusal:
    """The API server refused an object when it was last applied."""

    key: ObjectKey
    immutable: bool
    message: str


@dataclass(frozen=True)
class WantedKey:
    """A Secret with the key of a resource's exchange, which has to be there before engines start."""

    secret: Manifest
    """Without its data."""
    entry: str
    """Key in the Secret's data."""
    generated: bool
    """It is made, with a new key, where there is none. Else it is the user's, and only looked for."""


@dataclass(frozen=True)
class Observed:
    """One resource and its surroundings, read live in one reconcile."""

    resource: DisaggregatedInference
    at: datetime
    """When it was read, with a time zone."""
    sets: tuple[Manifest, ...] = ()
    """The engines' StatefulSets that exist."""
    revisions: tuple[Manifest, ...] = ()
    """The ControllerRevisions that exist, but for those of StatefulSets."""
    front_door: Manifest | None = None
    """The front door's Deployment."""
    scalers: Mapping[Role, Manifest] = field(default_factory=dict)
    """The scalers that exist."""
    owned: frozenset[ObjectKey] = frozenset()
    """All children with the resource's label and an owner reference to it."""
    pods: tuple[Manifest, ...] = ()
    """All engine pods with the resource's label that its sets control."""
    reports: tuple[Report, ...] = ()
    """What conversations with its engines have brought since its last reconcile."""
    strangers: frozenset[str] = frozenset()
    """UIDs of pods with the label of the resource's engines that no set of it controls (yet, or any more), and that haven't ended."""
    nodes: Mapping[str, Manifest] = field(default_factory=dict)
    """The nodes that these pods run on, by name."""
    offered: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)
    """For pods that no node was found for: by the label selector of the nodes that they may be on, these nodes."""
    refusals: tuple[Refusal, ...] = ()
    """What the API server refused in this reconcile (known only when status is planned)."""
    missing_key: WantedKey | None = None
    """The user's Secret that isn't there (known only when status is planned)."""


@dataclass(frozen=True)
class PodPatch:
    """Labels and annotations of one engine pod, as the operator's whole share of its metadata.

    It is server-side applied, so a label that is absent here and was applied before goes away.
    """

    name: str
    uid: str
    """The pod must still be this one: a replacement of the same name is left alone."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Eviction(NamedTuple):
    """A pod to be evicted, if it still is this one."""

    name: str
    uid: str


class EventType(NamedTuple):
    """Reason and severity of an Event on the resource."""

    reason: str
    warning: bool
    message: str


@dataclass(frozen=True)
class Plan:
    """What is to be done for one resource."""

    objects: tuple[Manifest, ...]
    """Children to apply, whole, in this order."""
    obsolete: tuple[ObjectKey, ...]
    """Children that are owned but no longer wanted."""
    pod_patches: tuple[PodPatch, ...]
    """Only for pods whose metadata differs."""
    key: WantedKey | None = None
    """The Secret that engines which are still to start need; None when there are none."""
    new: tuple[Manifest, ...] = ()
    """Children of `objects` as they are made, where there are none: with fields that are left to others from then on."""
    evictions: tuple[Eviction, ...] = ()
    """Pods of engines that are to be restarted."""


@dataclass(frozen=True)
class Outcome:
    """What to report when the plan has been carried out."""

    status: Status
    events: tuple[EventType, ...]
    again: timedelta | None
    """When to look again without being told; None: at the next resync."""
    scalers: Mapping[Role, ScalerStatus] = field(default_factory=dict)
    """Status of the scalers that exist."""
    targets: tuple[Target, ...] = ()
    """The decode engines to converse with from now on."""
