# SPDX-License-Identifier: Apache-2.0
"""Reads one resource's surroundings live. Nothing here is remembered from watches, which may have missed a deletion."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from tandem_connector.contract.types import Role
from tandem_operator.api import names
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.kube.apply import Applied, Patched
from tandem_operator.kube.client import Client, Json
from tandem_operator.kube.kinds import (
    CHILD_KINDS,
    DEPLOYMENT,
    POD,
    RESOURCE,
    SCALER,
    STATEFUL_SET,
    Kind,
    controller_of,
)
from tandem_operator.kube.nodes import Nodes
from tandem_operator.kube.ownership import owns
from tandem_operator.plan.children import key_of
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


async def read_resource(client: Client, key: ResourceKey) -> Json | None:
    """The resource as it is stored; None when it is gone or going."""
    resource = await client.get(RESOURCE, key.namespace, key.name)
    return None if resource is None or resource["metadata"].get("deletionTimestamp") else resource


async def observe(
    client: Client, nodes: Nodes[ResourceKey], resource: DisaggregatedInference, now: datetime
) -> Surroundings:
    """Read the resource's children, its engine pods and their nodes. `now` has a time zone."""
    metadata = resource.metadata
    label = f"{names.RESOURCE_LABEL}={metadata.name}"
    *children, pods = await asyncio.gather(
        *(client.list(kind, metadata.namespace, label) for kind in CHILD_KINDS),
        # Not by the sets' selector: a pod from which someone takes these labels is let go by its set, and its engine runs on.
        client.list(POD, metadata.namespace, f"{names.ENGINE_LABEL}={metadata.name}"),
    )
    live = {key_of(child): child for of_kind in children for child in of_kind}
    owned = {key: child for key, child in live.items() if owns(metadata, child)}
    sets = _by_role(STATEFUL_SET, metadata.name, owned)
    # Pods that a former resource of this name left carry the same labels, but have another set as their controller.
    set_uids = {each["metadata"]["uid"] for each in sets.values()}
    engines = tuple(pod for pod in pods if (controller_of(pod) or {}).get("uid") in set_uids)
    own = {pod["metadata"]["uid"] for pod in engines}
    key = ResourceKey(metadata.namespace, metadata.name)
    node_names = {name for pod in engines if (name := pod.get("spec", {}).get("nodeName"))}
    observed = Observed(
        resource=resource,
        at=now,
        sets=sets,
        front_door=_front_door(metadata.name, owned),
        scalers=_by_role(SCALER, metadata.name, owned),
        owned=frozenset(owned),
        pods=engines,
        strangers=frozenset(pod["metadata"]["uid"] for pod in pods if may_run(pod)) - own,
        nodes=await nodes.look(key, node_names),
    )
    return Surroundings(observed, live)


def after(observed: Observed, applied: Applied, patched: Patched) -> Observed:
    """What was observed, brought up to date by the server's answers to what was applied."""
    name = observed.resource.metadata.name
    return replace(
        observed,
        sets={**observed.sets, **_by_role(STATEFUL_SET, name, applied.live)},
        front_door=_front_door(name, applied.live) or observed.front_door,
        scalers={**observed.scalers, **_by_role(SCALER, name, applied.live)},
        owned=observed.owned | applied.live.keys(),
        pods=tuple(patched.live.get(pod["metadata"]["name"], pod) for pod in observed.pods),
        refusals=(*applied.refusals, *patched.refusals),
    )


def _by_role(kind: Kind, name: str, objects: Mapping[ObjectKey, Manifest]) -> dict[Role, Manifest]:
    keys = {role: ObjectKey(kind.api_version, kind.kind, names.role_name(name, role)) for role in Role}
    return {role: objects[key] for role, key in keys.items() if key in objects}


def _front_door(name: str, objects: Mapping[ObjectKey, Manifest]) -> Manifest | None:
    return objects.get(ObjectKey(DEPLOYMENT.api_version, DEPLOYMENT.kind, names.front_door_name(name)))
