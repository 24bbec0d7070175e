# SPDX-License-Identifier: Apache-2.0
"""With which decode engines conversations are to be held."""

from collections.abc import Sequence

from tandem_connector.contract.types import EngineId, Role, pod_of
from tandem_operator.plan.conversation import Course, Standing
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.proof import ITSELF, ready_pairs
from tandem_operator.plan.resolved import PushTransfer, Resolved
from tandem_operator.plan.target import Place, Target


def targets(resolved: Resolved, pods: Sequence[EnginePod]) -> tuple[Target, ...]:
    """The decode engines among `pods` that have somebody to ask."""
    transfer = resolved.transfer
    if resolved.verifying is None or not isinstance(transfer, PushTransfer):
        return ()
    course = Course.of(transfer.above_tokens, resolved.block_size, pushes=transfer.reverse.pushes)
    period = resolved.verifying.period
    answering = {
        pod.peer.engine: Place(pod.peer.engine, pod.peer.address.host, pod.peer.address.http_port)
        for pod in pods
        if pod.peer and pod.ready and not pod.terminating
    }
    fabrics = {pod.uid: pod.record.fabric for pod in pods if pod.record and pod.record.fabric}
    found = []
    for pod in pods:
        place = answering.get(pod.peer.engine) if pod.peer else None
        peers = {pod_of(engine): answering[engine] for engine in map(EngineId, ready_pairs(pod)) if engine in answering}
        if pod.role is Role.DECODE and pod.exchanges and place and peers:
            found.append(
                Target(
                    pod=pod.uid,
                    place=place,
                    ranks=pod.ranks,
                    prefills=peers,
                    model=resolved.model.served_name,
                    course=course,
                    period=period,
                    settled=_is_settled(pod),
                    pairs=pod.record.pairs if pod.record else {},
                    fabrics={uid: fabrics[uid] for uid in (pod.uid, *peers) if uid in fabrics},
                )
            )
    return tuple(found)


def _shown(pod: EnginePod) -> frozenset[str]:
    pairs = pod.record.pairs if pod.record else {}
    if ITSELF in pairs:
        return frozenset()
    return frozenset(peer for peer, record in pairs.items() if record.standing is Standing.SHOWN)


def _is_settled(pod: EnginePod) -> bool:
    pairs = pod.record.pairs if pod.record else {}
    # What couldn't be told now can't be told in 20 s.
    return any(record.standing is Standing.OPEN for record in pairs.values()) or _shown(pod) >= set(ready_pairs(pod))
