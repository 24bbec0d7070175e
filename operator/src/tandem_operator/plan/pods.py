# SPDX-License-Identifier: Apache-2.0
"""Engine pods as planning sees them: read once from what the API server gives, tolerant of what is missing or odd."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from tandem_connector.contract.environment import HTTP_PORT, SIDE_CHANNEL_PORT
from tandem_connector.contract.peers import MAX_RANKS, Address, Network, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Role
from tandem_operator.api.names import (
    DATA_LABEL,
    FORMER_PEERS_ANNOTATION,
    KIN_LABEL,
    NETWORK_LAYER_LABEL_PREFIX,
    PEERS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    ROUTABLE_LABEL,
    TELL_AGAIN_ANNOTATION,
    TENSOR_LABEL,
    TOLD_ANNOTATION,
    VERIFICATION_ANNOTATION,
    ZONE_LABEL,
)
from tandem_operator.plan.revision import ENGINE_CONTAINER, side_channel_port
from tandem_operator.plan.types import Manifest, Observed
from tandem_operator.plan.verification import Record

_HASH_LABEL = "controller-revision-hash"
"""Set by the StatefulSet controller."""
_OWN_ANNOTATIONS = (
    PEERS_ANNOTATION,
    FORMER_PEERS_ANNOTATION,
    TOLD_ANNOTATION,
    TELL_AGAIN_ANNOTATION,
    VERIFICATION_ANNOTATION,
)
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
    kin: str
    """Which engines of its role can use what it holds; empty where that isn't known."""
    template: str
    """Which template of its StatefulSet the pod was made from."""
    ready: bool
    """Kubernetes calls it ready, and its node still answers."""
    terminating: bool
    ranks: int
    """Its engines, which others have to address: data-parallel ranks are engines of their own."""
    is_over: bool
    """It is terminating, and its engine's process has ended: there won't be another."""
    exchanges: bool
    """Its engine is of a configuration with `Push`, whatever the resource says now."""
    labelled_routable: bool
    annotations: Mapping[str, str]
    """Those that tell of its peers, when it was told of them, and what is known of it, as they are now."""
    network: Network
    """As far as its node is known."""
    node_closed: bool
    """Its node takes no pods like this any more: it may be about to be emptied."""
    peer: Peer | None
    """How other engines are to see it; None while no process runs or its address isn't known."""

    @cached_property
    def table(self) -> PeerTable | None:
        """The peer table in its annotation; None when there is none or it can't be read."""
        try:
            table = PeerTable.model_validate_json(self.annotations.get(PEERS_ANNOTATION, ""))
        except ValidationError:
            return None
        return table if 0 <= table.generation <= _HIGHEST_GENERATION else None

    @cached_property
    def record(self) -> Record | None:
        """What its annotation says of the process that runs now; None when it says nothing."""
        return Record.read(self.annotations.get(VERIFICATION_ANNOTATION), self.peer.engine if self.peer else None)

    @property
    def former_peers(self) -> Mapping[str, str | None]:
        """UIDs of pods that were in its table, and existed when they were last looked for, with the address that it knew."""
        entries = (entry.partition("@") for entry in self.annotations.get(FORMER_PEERS_ANNOTATION, "").split(","))
        return {uid: address or None for uid, _, address in entries if uid}

    @property
    def ordinal(self) -> int:
        """Its number in its StatefulSet, of which the highest end first; 0 when its name has none."""
        number = self.name.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0

    @property
    def node(self) -> str | None:
        """Where it runs; None while it isn't scheduled."""
        return self.manifest.get("spec", {}).get("nodeName") or None

    @property
    def takes_requests(self) -> bool:
        """Whether the front door uses it."""
        return self.ready and self.labelled_routable and not self.terminating


def engine_pods(observed: Observed) -> tuple[EnginePod, ...]:
    """The resource's engine pods that haven't ended, in a fixed order."""
    pods = (_read(manifest, observed.nodes) for manifest in observed.pods)
    return tuple(sorted((pod for pod in pods if pod), key=lambda pod: (pod.role, pod.name, pod.uid)))


def living(observed: Observed) -> dict[str, str | None]:
    """All pods in which an engine of the resource may run, whoever controls them: by UID, the address, as far as it is known."""
    known = {
        pod["metadata"]["uid"]: pod.get("status", {}).get("podIP") or None for pod in observed.pods if may_run(pod)
    }
    return {**dict.fromkeys(observed.strangers), **known}


def may_run(manifest: Manifest) -> bool:
    """Whether the pod's engine may run, now or later."""
    return not _has_ended(manifest) and not _is_over(manifest)


def is_ready(manifest: Manifest) -> bool:
    """Whether Kubernetes calls a pod or a node ready."""
    return _is_true(manifest, "Ready")


def _has_ended(manifest: Manifest) -> bool:
    return manifest.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def _is_over(manifest: Manifest) -> bool:
    """A pod that is being deleted has its containers started no more."""
    containers = manifest.get("status", {}).get("containerStatuses") or ()
    return bool(manifest["metadata"].get("deletionTimestamp")) and any(
        container["name"] == ENGINE_CONTAINER and "terminated" in (container.get("state") or {})
        for container in containers
    )


def _read(manifest: Manifest, nodes: Mapping[str, Manifest]) -> EnginePod | None:
    metadata = manifest["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if labels.get(ROLE_LABEL) not in set(Role) or _has_ended(manifest):
        return None
    role = Role(labels[ROLE_LABEL])
    node = nodes.get(manifest.get("spec", {}).get("nodeName") or "")
    terminating = bool(metadata.get("deletionTimestamp"))
    # A node that isn't observed says nothing: it may have been made a moment ago.
    node_gone = node is not None and not is_ready(node)
    ready = is_ready(manifest) and not node_gone
    state = EngineState.DRAINING if terminating or node_gone else EngineState.READY if ready else EngineState.STARTING
    return EnginePod(
        manifest=manifest,
        name=metadata["name"],
        uid=metadata["uid"],
        role=role,
        revision=labels.get(REVISION_LABEL, ""),
        kin=labels.get(KIN_LABEL, ""),
        template=labels.get(_HASH_LABEL, ""),
        ready=ready,
        terminating=terminating,
        ranks=_ranks(labels) or 1,
        is_over=_is_over(manifest),
        exchanges=side_channel_port(manifest) != SIDE_CHANNEL_PORT,
        labelled_routable=labels.get(ROUTABLE_LABEL) == "true",
        annotations={name: annotations[name] for name in _OWN_ANNOTATIONS if name in annotations},
        network=network_of(node),
        node_closed=_is_closed(node, manifest),
        peer=_peer(manifest, role, state, network_of(node)),
    )


def _peer(manifest: Manifest, role: Role, state: EngineState, network: Network) -> Peer | None:
    metadata, status = manifest["metadata"], manifest.get("status", {})
    labels = metadata.get("labels") or {}
    start = _start(status.get("containerStatuses") or ())
    address, port = status.get("podIP"), side_channel_port(manifest)
    tensor, ranks = labels.get(TENSOR_LABEL, ""), _ranks(labels)
    if not start or not address or not port or not tensor.isdecimal() or int(tensor) < 1 or not ranks:
        return None
    return Peer(
        engine=EngineId(f"{metadata['uid']}-{start}"),
        pod=metadata["name"],
        role=role,
        state=state,
        address=Address(host=address, http_port=HTTP_PORT, side_channel_port=port),
        parallelism=Parallelism(tensor=int(tensor), data=ranks),
        revision=labels.get(REVISION_LABEL, ""),
        network=network,
    )


def _ranks(labels: Mapping[str, str]) -> int | None:
    """Data-parallel ranks; None when the label says nothing that can be."""
    ranks = labels.get(DATA_LABEL, "1")
    return int(ranks) if ranks.isdecimal() and 1 <= int(ranks) <= MAX_RANKS else None


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


def _is_closed(node: Manifest | None, pod: Manifest) -> bool:
    """Whether a pod like this couldn't be put on the node now: it is cordoned, or has a taint that the pod doesn't tolerate.

    Whoever is about to empty a node does one or the other first: `kubectl drain`, Karpenter, the cluster autoscaler, AWS's node
    termination handler.
    """
    spec = (node or {}).get("spec", {})
    tolerations = pod.get("spec", {}).get("tolerations") or ()
    return bool(spec.get("unschedulable")) or any(
        taint.get("effect") in {"NoSchedule", "NoExecute"} and not any(tolerates(each, taint) for each in tolerations)
        for taint in spec.get("taints") or ()
    )


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """As Kubernetes' `Toleration.ToleratesTaint`; a time limit is none here."""
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    if toleration.get("key") not in {None, "", taint.get("key")}:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def _is_true(manifest: Manifest, condition: str) -> bool:
    conditions = manifest.get("status", {}).get("conditions") or ()
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)
