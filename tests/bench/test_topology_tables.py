# SPDX-License-Identifier: Apache-2.0
"""Which tables a change requires, and when the benchmark takes the last of them to be written."""

from dataclasses import replace

from e2e.bench.topology.tables import Kind, Matching, Sight
from tandem_connector.contract.peers import Address, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role

P, D, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000101", "another"
READY, STARTING, DRAINING = EngineState.READY, EngineState.STARTING, EngineState.DRAINING


def a_table(generation: int, *peers: tuple[str, EngineState], gone: tuple[str, ...] = ()) -> PeerTable:
    return PeerTable.of(
        Generation(generation),
        tuple(
            Peer(
                engine=EngineId(f"{uid}-0.2026"),
                pod=uid,
                role=Role.PREFILL if uid == P else Role.DECODE,
                state=state,
                address=Address(host="10.0.0.1", http_port=8000, side_channel_port=5601),
                parallelism=Parallelism(tensor=1),
                revision="r1",
            )
            for uid, state in peers
        ),
        gone=gone,
    )


def a_pod(uid: str, at: float, table: PeerTable | None = None, *, ready: bool = True, node: str = "") -> Sight:
    return Sight(at=at, resource="qwen", uid=uid, ready=ready, table=table, node=node)


def a_pair() -> Matching:
    """Both are ready, and know each other, before the time is 0."""
    matching = Matching()
    matching.see(a_pod(P, -3, a_table(1, (D, READY)), node="node-p"))
    matching.see(a_pod(D, -2, a_table(1, (P, READY)), node="node-d"))
    matching.told.clear()
    return matching


def seen(matching: Matching) -> list[tuple[Kind, str, float]]:
    return [(told.change.kind, told.change.uid, told.seconds) for told in matching.told]


def test_an_engine_that_is_ready_is_told_when_all_that_it_knows_know_it_as_ready() -> None:
    matching = a_pair()
    matching.see(a_pod(OTHER, 0, None))
    matching.see(a_pod(OTHER, 1, a_table(2, (P, READY))))
    assert seen(matching) == []
    matching.see(a_pod(P, 2, a_table(2, (D, READY), (OTHER, STARTING)), node="node-p"))
    assert seen(matching) == []
    matching.see(a_pod(P, 3, a_table(3, (D, READY), (OTHER, READY)), node="node-p"))
    assert seen(matching) == [(Kind.READY, OTHER, 3)]
    assert matching.told[0].generations == {OTHER: 2, P: 3}


def test_an_engine_that_is_not_ready_any_more_is_told_when_nobody_is_told_that_it_is() -> None:
    matching = a_pair()
    matching.see(a_pod(P, 0, a_table(1, (D, READY)), ready=False))
    matching.see(a_pod(P, 1, a_table(2, (D, READY)), ready=False))
    assert not matching.is_settled("qwen")
    matching.see(a_pod(D, 2, a_table(2, (P, STARTING))))
    assert seen(matching) == [(Kind.UNREADY, P, 2)]
    assert matching.is_settled("qwen")


def test_a_pod_that_is_gone_is_told_when_all_that_knew_it_are_told_so_by_name() -> None:
    matching = a_pair()
    matching.see(replace(a_pod(P, 0, a_table(1, (D, READY))), ending=True))
    matching.see(replace(a_pod(P, 1, a_table(1, (D, READY))), exists=False))
    matching.see(a_pod(D, 2, a_table(2)))
    assert seen(matching) == []
    matching.see(a_pod(D, 4, a_table(3, gone=(P,))))
    assert seen(matching) == [(Kind.GONE, P, 3)], "that it was ending is moot"


def test_a_pod_that_is_being_deleted_is_told_when_nobody_is_told_that_it_is_ready() -> None:
    matching = a_pair()
    matching.see(replace(a_pod(P, 0, a_table(1, (D, READY))), ending=True))
    matching.see(a_pod(D, 1, a_table(2, (P, DRAINING))))
    assert seen(matching) == [(Kind.ENDING, P, 1)]


def test_a_lost_node_is_told_for_each_engine_on_it() -> None:
    matching = a_pair()
    assert matching.lose_node("node-p", 0) == 1
    matching.see(a_pod(D, 2, a_table(2, (P, DRAINING)), node="node-d"))
    assert seen(matching) == [(Kind.NODE_LOST, P, 2)]


def test_a_change_that_concerns_nobody_is_counted_and_not_waited_for() -> None:
    matching = Matching()
    matching.see(a_pod(P, 0, a_table(1)))
    matching.see(a_pod(P, 1, a_table(1), ready=False))
    assert (seen(matching), matching.silent) == ([], 1)
