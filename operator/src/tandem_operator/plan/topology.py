# SPDX-License-Identifier: Apache-2.0
"""Who knows whom: the peer table of each engine pod, and whether the front door may use it.

With `Push` a decode engine knows the prefill engines that it is paired with (`plan/pairing.py`), and these know it. With
`NixlPull` vllm-router takes any prefill and any decode engine for a request, so all engines of a revision know all of the other role.
With `Push` an engine and its heir (`plan/heirs.py`) know each other too.

An identity in a table is the pod's UID and the process's start as the API server tells it; the engine's own id ends
differently (the process can't know what the API server will say). Both begin with the pod's UID up to the last dash, and both
change with each process; with `Push` the process that answers at the address tells its own.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from tandem_connector.contract.peers import Drain, Peer
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role, pod_of
from tandem_operator.api.names import ROUTABLE_LABEL, VERIFICATION_ANNOTATION
from tandem_operator.api.status import Topology
from tandem_operator.plan.heirs import heirs
from tandem_operator.plan.pairing import pairing
from tandem_operator.plan.pairs import Engine, Pair, Standing
from tandem_operator.plan.pods import EnginePod, living
from tandem_operator.plan.proven import is_proven
from tandem_operator.plan.quarantine import held_in
from tandem_operator.plan.requests import open_request
from tandem_operator.plan.rollout import Rollout
from tandem_operator.plan.tables import Told, peer_annotations
from tandem_operator.plan.types import Observed, PodPatch
from tandem_operator.plan.verification import updated


def pod_patches(observed: Observed, everyone: Sequence[EnginePod], course: Rollout) -> tuple[PodPatch, ...]:
    """What is to be changed on the engine pods.

    Args:
        observed: the resource.
        everyone: its engine pods.
        course: says of which revisions engines may take turns.
    """
    resolved = course.resolved
    pods = {pod.uid: pod for pod in everyone if not pod.is_over}
    held = held_in(observed.resource.status.quarantined) if observed.resource.status else frozenset()
    used = {uid: pod for uid, pod in pods.items() if uid not in held}
    kinds = _kinds(tuple(pods.values()), single_zone=resolved.place.single_zone)
    peers = _peers(used, kinds, resolved.wiring.peers_per_decode)
    kin = {uid: (pods[uid].kin or kind[0], *kind[1:]) for uid, kind in kinds.items()}
    heir_of = heirs(used, kin, peers, course.target.name) if resolved.wiring.migrate else {}
    known = {**dict.fromkeys(held, frozenset()), **_with_heirs(peers, heir_of)}
    alive = living(observed)
    following = Generation(newest_generation(observed, everyone) + 1)
    patches = []
    for uid, pod in pods.items():
        listed = tuple(peer for other in sorted(known[uid]) if (peer := pods[other].peer))
        heir = _engine_of(pods.get(heir_of.get(uid, "")))
        annotations = peer_annotations(pod, Told(listed, _drain(pod, heir), heir), alive, following, observed.at)
        annotations |= _verification(pod, listed, observed)
        routable = uid in used and is_proven(pod) and pod.revision in course.open and _has_its_ranks(pod, course)
        if annotations != pod.annotations or routable != pod.labelled_routable:
            labels = {ROUTABLE_LABEL: "true"} if routable else {}
            patches.append(PodPatch(name=pod.name, uid=uid, labels=labels, annotations=annotations))
    return tuple(patches)


def newest_generation(observed: Observed, pods: Sequence[EnginePod]) -> Generation:
    """The highest generation that any engine may have seen; the status remembers what no pod carries any more."""
    remembered = observed.resource.status.topology.generation if observed.resource.status else 0
    return Generation(max(chain((remembered,), (pod.table.generation for pod in pods if pod.table))))


def summary(observed: Observed, pods: Sequence[EnginePod]) -> Topology:
    """The peer tables of these engine pods of the resource as they are, for the status."""
    tables = {pod.uid: pod.table for pod in pods}
    content = "\n".join(f"{uid}={table.digest}" for uid, table in sorted(tables.items()) if table)
    known = {
        (pod.uid, peer.engine): pod.ranks * peer.parallelism.data
        for pod in pods
        if pod.role is Role.DECODE and pod.table
        for peer in pod.table.peers
        if peer.role is Role.PREFILL
    }
    return Topology(
        generation=newest_generation(observed, pods),
        digest=hashlib.sha256(content.encode()).hexdigest()[:16],
        engines=sum(pod.ranks for pod in pods if pod.table),
        pairs=sum(known.values()),
    )


def _kinds(pods: Sequence[EnginePod], *, single_zone: bool) -> dict[str, tuple[str, ...]]:
    """By UID, what engines must have in common to be peers.

    Of a pod whose node isn't known, the zone is taken to be that of all others: its affinity sees to that.
    """
    zones: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        if pod.network.zone:
            zones[pod.revision].add(pod.network.zone)
    if not single_zone:
        return {pod.uid: (pod.revision,) for pod in pods}
    usual = {revision: min(found) for revision, found in zones.items() if len(found) == 1}
    return {pod.uid: (pod.revision, pod.network.zone or usual.get(pod.revision, "")) for pod in pods}


def _peers(
    pods: Mapping[str, EnginePod], kinds: Mapping[str, tuple[str, ...]], per_decode: int
) -> dict[str, frozenset[str]]:
    """By UID, the engines of the other role that a pod is to know."""
    pairs = pairing(
        (_engine(pod, kinds[uid]) for uid, pod in pods.items() if pod.exchanges),
        (pair for pod in pods.values() for pair in _present(pod)),
        per_decode,
    )
    known: dict[str, set[str]] = {uid: set() for uid in pods}
    for prefill, decode in chain(pairs, _all_with_all(pods)):
        known[prefill].add(decode)
        known[decode].add(prefill)
    return {uid: frozenset(others) for uid, others in known.items()}


def _has_its_ranks(pod: EnginePod, course: Rollout) -> bool:
    """The front door sends each turn to a data-parallel rank, and a server refuses one that it doesn't have."""
    chosen = course.resolved.front_door.enabled and pod.role is Role.DECODE
    return not chosen or pod.ranks == course.fronted.ranks


def _engine(pod: EnginePod, kind: tuple[str, ...]) -> Engine:
    match pod.peer.state if pod.peer else None:
        case EngineState.READY:
            standing = Standing.READY
        case EngineState.STARTING:
            standing = Standing.STARTING
        case EngineState.DRAINING | None:
            standing = Standing.LEAVING
    place = (pod.network.zone or "", *pod.network.layers)
    return Engine(pod.uid, pod.role, kind, place, standing, pod.ranks)


def _present(pod: EnginePod) -> Iterator[Pair]:
    """The pairs that the pod's table tells of. Either side's will do: the other's leaves out who has no process now."""
    for peer in pod.table.peers if pod.table else ():
        other = pod_of(peer.engine)
        if peer.role is pod.role.other:
            yield Pair(pod.uid, other) if pod.role is Role.PREFILL else Pair(other, pod.uid)


def _all_with_all(pods: Mapping[str, EnginePod]) -> Iterator[Pair]:
    """Of the engines that don't exchange."""
    of: dict[tuple[Role, str], list[str]] = defaultdict(list)
    for uid, pod in pods.items():
        if not pod.exchanges:
            of[pod.role, pod.revision].append(uid)
    for (role, revision), uids in tuple(of.items()):
        if role is Role.PREFILL:
            decodes = of.get((Role.DECODE, revision), ())
            yield from (Pair(prefill, decode) for prefill in uids for decode in decodes)


def _with_heirs(peers: Mapping[str, Set[str]], heir_of: Mapping[str, str]) -> dict[str, set[str]]:
    known = {uid: set(others) for uid, others in peers.items()}
    for uid, heir in heir_of.items():
        known[uid].add(heir)
        known[heir].add(uid)
    return known


def _verification(pod: EnginePod, listed: Iterable[Peer], observed: Observed) -> dict[str, str]:
    """What is known of it, as an annotation."""
    if pod.peer is None:
        return {}
    request = open_request(observed.resource)
    engines = (peer.engine for peer in listed)
    record = updated(pod.record, pod.uid, pod.peer.engine, engines, observed.reports, request=request)
    return {VERIFICATION_ANNOTATION: record.to_annotation()} if record else {}


def _engine_of(pod: EnginePod | None) -> EngineId | None:
    return pod.peer.engine if pod and pod.peer else None


def _drain(pod: EnginePod, heir: EngineId | None) -> Drain | None:
    """Only a pod that is being deleted drains. Its node may come back, and a node that takes no new pods goes on with those it has.

    Where a kubelet still shows it, the engine needn't wait for its preStop hook.
    """
    if not (pod.terminating and pod.exchanges):
        return None
    return Drain(successor=heir)
