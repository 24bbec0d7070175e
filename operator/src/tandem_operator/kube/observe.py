# SPDX-License-Identifier: Apache-2.0
"""Reads one resource's surroundings: it and its pods live, the rest as far as it may have changed since it was last read.

Nothing is taken from watches, which may have missed a deletion; they only tell when to read again.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from tandem_connector.contract.types import Role
from tandem_operator.api import names
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.kube.apply import Applied, Patched
from tandem_operator.kube.children import Children
from tandem_operator.kube.client import Client, Json
from tandem_operator.kube.kinds import (
    CONTROLLER_REVISION,
    DEPLOYMENT,
    POD,
    RESOURCE,
    SCALER,
    STATEFUL_SET,
    Kind,
    controller_of,
)
from tandem_operator.kube.news import News
from tandem_operator.kube.nodes import Nodes
from tandem_operator.kube.ownership import owns
from tandem_operator.plan.children import key_of
from tandem_operator.plan.offers import wanted_labels
from tandem_operator.plan.pods import may_run
from tandem_operator.plan.types import Manifest, ObjectKey, Observed


class ResourceKey(NamedTuple):
    """Names one DisaggregatedInference."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Surroundings:
    """What planning gets, and what applying needs besides."""

    observed: Observed
    live: Mapping[ObjectKey, Manifest]
    """All objects with the resource's label, whoever owns them."""


@dataclass(frozen=True)
class Observer:
    """Reads, with what is remembered between looks."""

    client: Client
    news: News[ResourceKey]
    """Is told what was read."""
    children: Children[ResourceKey]
    nodes: Nodes[ResourceKey]

    def forget(self, key: ResourceKey) -> None:
        """The resource is gone, or another one of its name."""
        self.news.forget(key)
        self.children.forget(key)
        self.nodes.forget(key)

    async def resource(self, key: ResourceKey) -> Json | None:
        """The resource as it is stored; None when it is gone or going."""
        if self.news.about(key, RESOURCE.plural):
            # Whoever touches the resource wants all of it looked at.
            self.children.forget(key)
        resource = await self.client.get(RESOURCE, key.namespace, key.name)
        if resource is None or resource["metadata"].get("deletionTimestamp"):
            return None
        self.news.read(key, RESOURCE.plural, resource["metadata"]["resourceVersion"])
        return resource

    async def surroundings(self, resource: DisaggregatedInference, now: datetime) -> Surroundings:
        """The resource's children, its engine pods and their nodes. `now` has a time zone."""
        key = ResourceKey(resource.metadata.namespace, resource.metadata.name)
        live, pods = await asyncio.gather(
            self.children.look(key, key.namespace, f"{names.RESOURCE_LABEL}={key.name}"),
            # Not by the sets' selector: a pod from which someone takes these labels is let go by its set, and its engine runs on.
            self.client.list(POD, key.namespace, f"{names.ENGINE_LABEL}={key.name}"),
        )
        self.news.read(key, POD.plural, pods.version)
        observed = observed_of(resource, now, live, pods.items)
        node_names = {name for pod in observed.pods if (name := pod.get("spec", {}).get("nodeName"))}
        selectors = {selector for pod in observed.pods if (selector := wanted_labels(pod))}
        found, offered = await asyncio.gather(self.nodes.look(key, node_names), self.nodes.labelled(selectors))
        return Surroundings(replace(observed, nodes=found, offered=offered), live)


def observed_of(
    resource: DisaggregatedInference, now: datetime, live: Mapping[ObjectKey, Manifest], pods: Sequence[Json]
) -> Observed:
    """What was read, sorted; without nodes.

    Args:
        resource: whose surroundings these are.
        now: with a time zone.
        live: objects with its label.
        pods: with its engines' label.
    """
    metadata = resource.metadata
    owned = {key: child for key, child in live.items() if owns(metadata, child)}
    sets = _sets(owned)
    # Pods that a former resource of this name left carry the same labels, but have another set as their controller.
    set_uids = {each["metadata"]["uid"] for each in sets}
    engines = tuple(pod for pod in pods if (controller_of(pod) or {}).get("uid") in set_uids)
    own = {pod["metadata"]["uid"] for pod in engines}
    return Observed(
        resource=resource,
        at=now,
        sets=sets,
        revisions=_of_kind(CONTROLLER_REVISION, owned),
        front_door=_front_door(metadata.name, owned),
        scalers=_by_role(SCALER, metadata.name, owned),
        owned=frozenset(owned),
        pods=engines,
        strangers=frozenset(pod["metadata"]["uid"] for pod in pods if may_run(pod)) - own,
    )


def after(observed: Observed, applied: Applied, patched: Patched, deleted: Collection[ObjectKey]) -> Observed:
    """What was observed, brought up to date by the server's answers to what was applied, without what was deleted."""
    name = observed.resource.metadata.name
    kept = {key_of(each): each for each in (*observed.sets, *observed.revisions) if key_of(each) not in deleted}
    children = {**kept, **applied.live}
    return replace(
        observed,
        sets=_sets(children),
        revisions=_of_kind(CONTROLLER_REVISION, children),
        front_door=_front_door(name, applied.live) or observed.front_door,
        scalers={**observed.scalers, **_by_role(SCALER, name, applied.live)},
        owned=(observed.owned | applied.live.keys()).difference(deleted),
        pods=tuple(patched.live.get(pod["metadata"]["name"], pod) for pod in observed.pods),
        refusals=(*applied.refusals, *patched.refusals),
    )


def _sets(objects: Mapping[ObjectKey, Manifest]) -> tuple[Manifest, ...]:
    """The engines' StatefulSets."""
    found = _of_kind(STATEFUL_SET, objects)
    return tuple(each for each in found if each["metadata"].get("labels", {}).get(names.ROLE_LABEL) in set(Role))


def _of_kind(kind: Kind, objects: Mapping[ObjectKey, Manifest]) -> tuple[Manifest, ...]:
    return tuple(each for key, each in objects.items() if (key.api_version, key.kind) == (kind.api_version, kind.kind))


def _by_role(kind: Kind, name: str, objects: Mapping[ObjectKey, Manifest]) -> dict[Role, Manifest]:
    keys = {role: ObjectKey(kind.api_version, kind.kind, names.role_name(name, role)) for role in Role}
    return {role: objects[key] for role, key in keys.items() if key in objects}


def _front_door(name: str, objects: Mapping[ObjectKey, Manifest]) -> Manifest | None:
    return objects.get(ObjectKey(DEPLOYMENT.api_version, DEPLOYMENT.kind, names.front_door_name(name)))
