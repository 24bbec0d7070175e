# SPDX-License-Identifier: Apache-2.0
"""What is written on one engine pod of its peers: the table, and who was in it.

A table is rewritten only when what it says has changed, under a generation above all that was ever seen, so an engine can tell a
new table from a late one.

A table names the pods that are gone, of those that were ever in it. An engine may leave the table before its pod is gone, so pods
that were in the table and exist are remembered beside it.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from tandem_connector.contract.peers import MAX_GONE, Drain, Peer, PeerTable
from tandem_connector.contract.types import EngineId, Generation, pod_of
from tandem_operator.api.names import FORMER_PEERS_ANNOTATION, PEERS_ANNOTATION
from tandem_operator.plan.pods import EnginePod


@dataclass(frozen=True)
class Told:
    """What an engine is to know."""

    peers: tuple[Peer, ...]
    drain: Drain | None
    heir: EngineId | None


def peer_annotations(pod: EnginePod, told: Told, living: Set[str], following: Generation) -> dict[str, str]:
    """The annotations that `pod` is to have.

    Args:
        pod: with its present ones.
        told: what it is to know.
        living: UIDs of all pods in which an engine may run.
        following: the generation of a table that says something new.
    """
    present = pod.table
    listed = {pod_of(peer.engine) for peer in told.peers}
    seen = dict.fromkeys((*pod.former_peers, *(pod_of(peer.engine) for peer in (present.peers if present else ()))))
    ended = dict.fromkeys((*(present.gone if present else ()), *seen))
    gone = [uid for uid in ended if uid not in living and uid not in listed]
    former = [uid for uid in seen if uid in living and uid not in listed][-MAX_GONE:]
    table = _table(pod, told, gone, following)
    return {PEERS_ANNOTATION: table, **({FORMER_PEERS_ANNOTATION: ",".join(former)} if former else {})}


def _table(pod: EnginePod, told: Told, gone: Sequence[str], following: Generation) -> str:
    """The present table when it says the same, to the byte; else a new one of the following generation."""
    if pod.table is not None:
        same = PeerTable.of(pod.table.generation, told.peers, told.drain, gone, told.heir).to_annotation()
        if same == pod.annotations.get(PEERS_ANNOTATION):
            return same
    return PeerTable.of(following, told.peers, told.drain, gone, told.heir).to_annotation()
