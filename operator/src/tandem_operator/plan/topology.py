# SPDX-License-Identifier: Apache-2.0
"""Who knows whom: the peer table of each engine pod, and whether the front door may use it.

All engines of one revision know all of the other role. A table is rewritten only when what it says has changed, under a
generation above all that was ever seen, so an engine can tell a new table from a late one.

An identity in a table is the pod's UID and the process's start as the API server tells it; the engine's own id ends
differently (the process can't know what the API server will say). Both begin with the pod's UID up to the last dash, and both
change with each process; with `Push` the process that answers at the address tells its own.
"""

import hashlib
from collections.abc import Sequence
from itertools import chain

from tandem_connector.contract.peers import Peer, PeerTable
from tandem_connector.contract.types import Generation, Role, pod_of
from tandem_operator.api.names import PEERS_ANNOTATION, ROUTABLE_LABEL
from tandem_operator.api.status import Topology
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.types import Observed, PodPatch


def pod_patches(observed: Observed, revision: str) -> tuple[PodPatch, ...]:
    """What is to be changed on the engine pods, of which those of `revision` may be used by the front door."""
    pods = engine_pods(observed)
    following = Generation(newest_generation(observed, pods) + 1)
    patches = (_patch(pod, peers_of(pod, pods), gone_of(pod, pods), following, revision) for pod in pods)
    return tuple(patch for patch in patches if patch)


def peers_of(pod: EnginePod, pods: Sequence[EnginePod]) -> tuple[Peer, ...]:
    """The engines that `pod` is to know: those of the other role and the same revision that have a process."""
    return tuple(
        other.peer for other in pods if other.peer and other.role is pod.role.other and other.revision == pod.revision
    )


def gone_of(pod: EnginePod, pods: Sequence[EnginePod]) -> tuple[str, ...]:
    """UIDs of the pods that `pod` knew, and that have ended or exist no more; the latest last.

    What it knew is in its present table. A pod without a process, for now, is not among them: its engine may be in a crash loop.
    """
    if pod.table is None:
        return ()
    exist = {each.uid for each in pods}
    known = (*pod.table.gone, *(pod_of(peer.engine) for peer in pod.table.peers))
    return tuple(uid for uid in dict.fromkeys(known) if uid not in exist)


def newest_generation(observed: Observed, pods: Sequence[EnginePod]) -> Generation:
    """The highest generation that any engine may have seen; the status remembers what no pod carries any more."""
    remembered = observed.resource.status.topology.generation if observed.resource.status else 0
    return Generation(max(chain((remembered,), (pod.table.generation for pod in pods if pod.table))))


def summary(observed: Observed) -> Topology:
    """The peer tables as they are, for the status."""
    pods = engine_pods(observed)
    tables = {pod.uid: pod.table for pod in pods}
    content = "\n".join(f"{uid}={table.digest}" for uid, table in sorted(tables.items()) if table)
    known = {
        (pod.uid, peer.engine) for pod in pods if pod.role is Role.DECODE and pod.table for peer in pod.table.peers
    }
    return Topology(
        generation=newest_generation(observed, pods),
        digest=hashlib.sha256(content.encode()).hexdigest()[:16],
        engines=sum(1 for table in tables.values() if table),
        pairs=len(known),
    )


def _patch(
    pod: EnginePod, peers: tuple[Peer, ...], gone: tuple[str, ...], following: Generation, revision: str
) -> PodPatch | None:
    annotation = _annotation(pod, peers, gone, following)
    routable = pod.ready and not pod.terminating and pod.revision == revision
    if annotation == pod.annotation and routable == pod.labelled_routable:
        return None
    return PodPatch(
        name=pod.name,
        uid=pod.uid,
        labels={ROUTABLE_LABEL: "true"} if routable else {},
        annotations={PEERS_ANNOTATION: annotation},
    )


def _annotation(pod: EnginePod, peers: tuple[Peer, ...], gone: tuple[str, ...], following: Generation) -> str:
    """The present table when it says the same, to the byte; else a new one of the following generation."""
    present = pod.table
    if present is not None:
        same = PeerTable.of(present.generation, peers, gone=gone).to_annotation()
        if same == pod.annotation:
            return same
    return PeerTable.of(following, peers, gone=gone).to_annotation()
