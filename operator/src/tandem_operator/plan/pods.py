# SPDX-License-Identifier: Apache-2.0
"""Engine pods as planning sees them: read once from what the API server gives, tolerant of what is missing or odd."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from tandem_connector.contract.environment import HTTP_PORT
from tandem_connector.contract.peers import Address, Network, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Role
from tandem_operator.api.names import (
    NETWORK_LAYER_LABEL_PREFIX,
    PEERS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    ROUTABLE_LABEL,
    TENSOR_LABEL,
    ZONE_LABEL,
)
from tandem_operator.plan.engines import ENGINE_CONTAINER, SIDE_CHANNEL_PORT_NAME
from tandem_operator.plan.types import Manifest, Observed

_HASH_LABEL = "controller-revision-hash"
"""Set by the StatefulSet controller."""
_HIGHEST_GENERATION = 2**53
"""Above it not every JSON reader is exact: such a table wasn't made here, and must not set the pace."""


@dataclass(frozen=True)
class EnginePod:
    """One engine pod that hasn't ended."""

    manifest: Manifest
    name: str
    uid: str
    role: Role
    revision: str
    template: str
    """Which template of its StatefulSet the pod was made from."""
    ready: bool
    """Kubernetes calls it ready, and its node still answers."""
    terminating: bool
    labelled_routable: bool
    annotation: str | None
    """Its peer table as it is now."""
    peer: Peer | None
    """How other engines are to see it; None while no process runs or its address isn't known."""

    @cached_property
    def table(self) -> PeerTable | None:
        """The peer table in its annotation; None when there is none or it can't be read."""
        if self.annotation is None:
            return None
        try:
            table = PeerTable.model_validate_json(self.annotation)
        except ValidationError:
            return None
        return table if 0 <= table.generation <= _HIGHEST_GENERATION else None

    @property
    def takes_requests(self) -> bool:
        """Whether the front door uses it."""
        return self.ready and self.labelled_routable and not self.terminating


def engine_pods(observed: Observed) -> tuple[EnginePod, ...]:
    """The resource's engine pods that haven't ended, in a fixed order."""
    pods = (_read(manifest, observed.nodes) for manifest in observed.pods)
    return tuple(sorted((pod for pod in pods if pod), key=lambda pod: (pod.role, pod.name, pod.uid)))


def _read(manifest: Manifest, nodes: Mapping[str, Manifest]) -> EnginePod | None:
    metadata, status = manifest["metadata"], manifest.get("status", {})
    labels = metadata.get("labels") or {}
    if labels.get(ROLE_LABEL) not in set(Role) or status.get("phase") in {"Succeeded", "Failed"}:
        return None
    role = Role(labels[ROLE_LABEL])
    node = nodes.get(manifest.get("spec", {}).get("nodeName") or "")
    terminating = bool(metadata.get("deletionTimestamp"))
    # A node that isn't observed says nothing: it may have been made a moment ago.
    node_gone = node is not None and not _is_true(node, "Ready")
    ready = _is_true(manifest, "Ready") and not node_gone
    state = EngineState.DRAINING if terminating or node_gone else EngineState.READY if ready else EngineState.STARTING
    return EnginePod(
        manifest=manifest,
        name=metadata["name"],
        uid=metadata["uid"],
        role=role,
        revision=labels.get(REVISION_LABEL, ""),
        template=labels.get(_HASH_LABEL, ""),
        ready=ready,
        terminating=terminating,
        labelled_routable=labels.get(ROUTABLE_LABEL) == "true",
        annotation=(metadata.get("annotations") or {}).get(PEERS_ANNOTATION),
        peer=_peer(manifest, role, state, network_of(node)),
    )


def _peer(manifest: Manifest, role: Role, state: EngineState, network: Network) -> Peer | None:
    metadata, status = manifest["metadata"], manifest.get("status", {})
    labels = metadata.get("labels") or {}
    start = _start(status.get("containerStatuses") or ())
    address, port = status.get("podIP"), _side_channel_port(manifest)
    tensor = labels.get(TENSOR_LABEL, "")
    if not start or not address or not port or not tensor.isdecimal() or int(tensor) < 1:
        return None
    return Peer(
        engine=EngineId(f"{metadata['uid']}-{start}"),
        pod=metadata["name"],
        role=role,
        state=state,
        address=Address(host=address, http_port=HTTP_PORT, side_channel_port=port),
        parallelism=Parallelism(tensor=int(tensor)),
        revision=labels.get(REVISION_LABEL, ""),
        network=network,
    )


def _side_channel_port(manifest: Manifest) -> int | None:
    """From the pod itself, since pods of an older configuration may have another protocol."""
    containers = manifest.get("spec", {}).get("containers") or ()
    ports = (port for each in containers if each["name"] == ENGINE_CONTAINER for port in each.get("ports") or ())
    return next((port["containerPort"] for port in ports if port.get("name") == SIDE_CHANNEL_PORT_NAME), None)


def _start(containers: Iterable[Mapping[str, Any]]) -> str | None:
    """What tells one process of the pod's engine from the next, as far as the API server can: how often it was restarted, and when."""
    for container in containers:
        running = (container.get("state") or {}).get("running")
        if container["name"] == ENGINE_CONTAINER and running:
            # Without a dash, so that the pod's UID is all before the last one, as in the id that the engine gives itself.
            at = (running.get("startedAt") or "unknown").replace("-", "").replace(":", "")
            return f"{container.get('restartCount', 0)}.{at}"
    return None


def network_of(node: Manifest | None) -> Network:
    """Zone and network layers from a node's labels."""
    labels: Mapping[str, str] = (node or {}).get("metadata", {}).get("labels") or {}
    layers = {
        int(depth): value
        for label, value in labels.items()
        if label.startswith(NETWORK_LAYER_LABEL_PREFIX)
        and (depth := label.removeprefix(NETWORK_LAYER_LABEL_PREFIX)).isdecimal()
    }
    return Network(zone=labels.get(ZONE_LABEL), layers=tuple(layers[depth] for depth in sorted(layers)))


def _is_true(manifest: Manifest, condition: str) -> bool:
    conditions = manifest.get("status", {}).get("conditions") or ()
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)
