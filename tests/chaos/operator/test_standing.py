# SPDX-License-Identifier: Apache-2.0
"""What is seen of the resources after a fault, and what of it must not be."""

from typing import Any

import pytest

from e2e.chaos.operator.resting import Standing
from e2e.chaos.operator.snapshot import Snapshot
from tandem_connector.contract.peers import Address, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role
from tandem_operator.api.names import API_VERSION, KIND, PEERS_ANNOTATION
from tests.builders import a_ready_pod


def a_table(*pods: str) -> str:
    peers = tuple(
        Peer(
            engine=EngineId(f"{uid}-0"),
            pod=f"pod-{uid}",
            role=Role.PREFILL,
            state=EngineState.READY,
            address=Address(host="10.0.0.1", http_port=8000, side_channel_port=9000),
            parallelism=Parallelism(tensor=1),
            revision="r",
        )
        for uid in pods
    )
    return PeerTable(generation=Generation(1), digest="d", peers=peers).model_dump_json(by_alias=True)


def an_engine(uid: str, *knows: str, restarts: int = 0) -> dict[str, Any]:
    pod = a_ready_pod().build()
    pod["metadata"] |= {"name": f"pod-{uid}", "uid": uid, "annotations": {PEERS_ANNOTATION: a_table(*knows)}}
    pod["kind"] = "Pod"
    pod["status"]["containerStatuses"] = [{"restartCount": restarts}]
    return pod


def a_service(name: str = "qwen-decode") -> dict[str, Any]:
    return {"kind": "Service", "metadata": {"name": name, "labels": {"tandem.dev/resource": "qwen"}}}


def the_resource(uid: str = "of-qwen") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "qwen", "uid": uid}}


BEFORE = Standing.of(Snapshot.of([the_resource(), an_engine("a", "b"), an_engine("b", "a"), a_service()]))


def test_a_peer_that_is_no_pod_is_a_ghost() -> None:
    assert Snapshot.of([an_engine("a", "b"), an_engine("b", "a")]).ghosts() == []
    (ghost,) = Snapshot.of([an_engine("a", "b", "c"), an_engine("b", "a")]).ghosts()
    assert ghost == "pod-a is told of pod-c (c-0), which is gone"


def test_what_belongs_to_no_resource_is_something_that_is_left_of_one() -> None:
    assert list(Snapshot.of([a_service()]).unsettled()) == ["qwen is gone, and something of it is left"]
    assert list(Snapshot.of([an_engine("a")]).unsettled()) == ["qwen is gone, and something of it is left"]
    assert list(Snapshot.of([]).unsettled()) == []


def test_a_resource_that_is_not_ready_is_not_settled() -> None:
    assert list(Snapshot.of([the_resource()]).unsettled()) == ["qwen is not ready"]


@pytest.mark.parametrize(
    ("now", "lacks"),
    [
        ([the_resource(), an_engine("a"), an_engine("c"), a_service(), a_service("other")], []),
        ([the_resource(), an_engine("a"), an_engine("c")], ["Service qwen-decode of qwen is missing"]),
        ([the_resource(), an_engine("a"), a_service()], ["qwen has 1 engines of 2"]),
        ([an_engine("a"), an_engine("c"), a_service()], ["the resource qwen is missing"]),
    ],
)
def test_what_was_there_has_to_be_there_again(now: list[dict[str, Any]], lacks: list[str]) -> None:
    assert list(BEFORE.lacks(Snapshot.of(now))) == lacks


def test_an_engine_that_is_another_one_or_was_started_anew_was_restarted_unless_a_fault_removed_it() -> None:
    now = Snapshot.of([the_resource(), an_engine("c"), an_engine("b", restarts=1)])
    assert BEFORE.missed(now, set()) == ([], ["a", "b"])
    assert BEFORE.missed(now, {"a"}) == ([], ["b"])
    assert BEFORE.missed(Snapshot.of([the_resource(), an_engine("a"), an_engine("b")]), set()) == ([], [])


def test_a_resource_that_is_gone_or_another_one_is_lost_unless_a_fault_removed_it() -> None:
    others = [an_engine("a"), an_engine("b")]
    assert BEFORE.missed(Snapshot.of([the_resource("another"), *others]), set()) == (["qwen"], [])
    assert BEFORE.missed(Snapshot.of(others), set()) == (["qwen"], [])
    assert BEFORE.missed(Snapshot.of([the_resource("another"), *others]), {"of-qwen"}) == ([], [])
