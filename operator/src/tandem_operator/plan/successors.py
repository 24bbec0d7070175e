# SPDX-License-Identifier: Apache-2.0
"""Who is to have what an engine holds that ends."""

from collections import Counter
from collections.abc import Mapping, Set

from tandem_connector.contract.types import EngineState
from tandem_operator.api.rules import MAX_PEERS
from tandem_operator.plan.pods import EnginePod


def successors(
    pods: Mapping[str, EnginePod], kinds: Mapping[str, tuple[str, ...]], peers: Mapping[str, Set[str]]
) -> dict[str, str]:
    """By UID of each pod that is being deleted: the UID of its successor, if there is one.

    A successor is of the same role and kind, ready, and isn't to end itself as far as can be seen. Among these, whoever has the fewest
    to succeed; then who has most peers in common, since these will ask for the same conversations. It remains the successor, also
    while it isn't ready for a moment, until its process ends or it is to end too: with another one the move would begin anew.

    Args:
        pods: by UID.
        kinds: by UID, what engines must have in common.
        peers: by UID, those that each is paired with.
    """
    ending = [uid for uid, pod in sorted(pods.items()) if pod.terminating and pod.exchanges and pod.peer]
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for uid in ending:
        heir = _present(pods[uid], pods, kinds)
        if heir and len(peers[uid]) < MAX_PEERS and len(peers[heir]) + counts[heir] < MAX_PEERS:
            found[uid] = heir
            counts[heir] += 1
    heirs = sorted(uid for uid, pod in pods.items() if pod.peer and pod.peer.state is EngineState.READY)
    for uid in ending:
        if uid not in found and len(peers[uid]) < MAX_PEERS:
            pod, own = pods[uid], peers[uid]
            able = (
                heir
                for heir in heirs
                if (pods[heir].role, kinds[heir]) == (pod.role, kinds[uid])
                and len(peers[heir]) + counts[heir] < MAX_PEERS
            )
            best = min(
                able,
                key=lambda heir: (pods[heir].node_closed, counts[heir], -len(own & peers[heir]), heir),
                default=None,
            )
            if best is not None:
                found[uid] = best
                counts[best] += 1
    return found


def _present(pod: EnginePod, pods: Mapping[str, EnginePod], kinds: Mapping[str, tuple[str, ...]]) -> str | None:
    """The successor that the pod's table names, if it still is one."""
    named = pod.table.drain.successor if pod.table and pod.table.drain else None
    for uid, other in pods.items() if named else ():
        if other.peer and other.peer.engine == named:
            stays = other.peer.state is not EngineState.DRAINING
            return uid if stays and other.role is pod.role and kinds[uid] == kinds[pod.uid] else None
    return None
