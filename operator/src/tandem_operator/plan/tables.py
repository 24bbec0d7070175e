# SPDX-License-Identifier: Apache-2.0
"""What is written on one engine pod of its peers: the table, and who was in it.

A table is rewritten only when what it says has changed, under a generation above all that was ever seen, so an engine can tell a
new table from a late one.

A table names the pods that are gone, of those that were ever in it. An engine may leave the table before its pod is gone, so pods
that were in the table and exist are remembered beside it, with the address that the table gave. A pod that has another address
now (its node was started anew) counts as gone until it is listed again: addresses belong to a pod's sandbox, and all processes
that ran in the one before have ended with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tandem_connector.contract.peers import MAX_GONE, Drain, Peer, PeerTable
from tandem_connector.contract.types import EngineId, Generation, pod_of
from tandem_operator.api.names import FORMER_PEERS_ANNOTATION, PEERS_ANNOTATION
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.telling import telling_annotations


@dataclass(frozen=True)
class Told:
    """What an engine is to know."""

    peers: tuple[Peer, ...]
    drain: Drain | None
    heir: EngineId | None


def peer_annotations(
    pod: EnginePod, told: Told, living: Mapping[str, str | None], following: Generation, at: datetime
) -> dict[str, str]:
    """The annotations that `pod` is to have.

    Args:
        pod: with its present ones.
        told: what it is to know.
        living: all pods in which an engine may run: by UID, the address, as far as it is known.
        following: the generation of a table that says something new.
        at: now, with a time zone.
    """
    present = pod.table
    listed = {pod_of(peer.engine) for peer in told.peers}
    in_table = {pod_of(peer.engine): peer.address.host for peer in (present.peers if present else ())}
    left = {uid: address for uid, address in {**pod.former_peers, **in_table}.items() if uid not in listed}
    ended = [uid for uid, address in left.items() if _has_ended(uid, address, living)]
    # What was once called gone stays so, though the pod may exist, until it is listed.
    gone = dict.fromkeys((*(uid for uid in (present.gone if present else ()) if uid not in listed), *ended))
    former = [f"{uid}@{address}" if address else uid for uid, address in left.items() if uid not in gone][-MAX_GONE:]
    table = _table(pod, told, tuple(gone), following)
    return {
        PEERS_ANNOTATION: table,
        **({FORMER_PEERS_ANNOTATION: ",".join(former)} if former else {}),
        **telling_annotations(pod, is_new=table != pod.annotations.get(PEERS_ANNOTATION), at=at),
    }


def _has_ended(uid: str, address: str | None, living: Mapping[str, str | None]) -> bool:
    """Whether the processes have that ran in this pod while it had this address."""
    now = living.get(uid)
    return uid not in living or (address is not None and now is not None and now != address)


def _table(pod: EnginePod, told: Told, gone: Sequence[str], following: Generation) -> str:
    """The present table when it says the same, to the byte; else a new one of the following generation."""
    if pod.table is not None:
        same = PeerTable.of(pod.table.generation, told.peers, told.drain, gone, told.heir).to_annotation()
        if same == pod.annotations.get(PEERS_ANNOTATION):
            return same
    return PeerTable.of(following, told.peers, told.drain, gone, told.heir).to_annotation()
