# SPDX-License-Identifier: Apache-2.0
"""With which decode engines conversations are to be held."""

from collections.abc import Sequence

from tandem_operator.plan.conversation import Course, Standing
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.proof import ITSELF, ready_pairs
from tandem_operator.plan.resolved import PushTransfer, Resolved
from tandem_operator.plan.rounds import conversing, has_answered
from tandem_operator.plan.target import Place, Target


def targets(resolved: Resolved, pods: Sequence[EnginePod], request: str) -> tuple[Target, ...]:
    """The decode engines among `pods` that have somebody to ask, and which of them are still to answer a request, if there is one."""
    transfer = resolved.transfer
    if resolved.verifying is None or not isinstance(transfer, PushTransfer):
        return ()
    course = Course.of(transfer.above_tokens, resolved.block_size, pushes=transfer.reverse.pushes)
    fabrics = {pod.uid: pod.record.fabric for pod in pods if pod.record and pod.record.fabric}
    found = []
    for pod, prefills in conversing(pods):
        places = {each.uid: place for each in (pod, *prefills) if (place := _place(each))}
        found.append(
            Target(
                pod=pod.uid,
                place=places.pop(pod.uid),
                ranks=pod.ranks,
                prefills=places,
                model=resolved.model.served_name,
                course=course,
                period=resolved.verifying.period,
                settled=_is_settled(pod),
                pairs=pod.record.pairs if pod.record else {},
                fabrics={each.uid: fabrics[each.uid] for each in (pod, *prefills) if each.uid in fabrics},
                request="" if has_answered(pod, prefills, request) else request,
            )
        )
    return tuple(found)


def _place(pod: EnginePod) -> Place | None:
    return Place(pod.peer.engine, pod.peer.address.host, pod.peer.address.http_port) if pod.peer else None


def _shown(pod: EnginePod) -> frozenset[str]:
    pairs = pod.record.pairs if pod.record else {}
    if ITSELF in pairs:
        return frozenset()
    return frozenset(peer for peer, record in pairs.items() if record.standing is Standing.SHOWN)


def _is_settled(pod: EnginePod) -> bool:
    pairs = pod.record.pairs if pod.record else {}
    # What couldn't be told now can't be told in 20 s.
    return any(record.standing is Standing.OPEN for record in pairs.values()) or _shown(pod) >= set(ready_pairs(pod))
