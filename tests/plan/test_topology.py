# SPDX-License-Identifier: Apache-2.0
"""Peer tables and the label that lets an engine take turns."""

from collections.abc import Iterable

import pytest

from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import EngineState, Generation, Role, pod_of
from tandem_operator.api.names import DATA_LABEL, PEERS_ANNOTATION, REVISION_LABEL, ROUTABLE_LABEL, TENSOR_LABEL
from tandem_operator.api.status import Status, Topology
from tandem_operator.plan.plan import plan
from tandem_operator.plan.pods import engine_pods
from tandem_operator.plan.topology import summary
from tandem_operator.plan.types import PodPatch
from tests.builders import DEFAULTS, a_node, a_pod, a_ready_pod, a_resource, observed, settled
from tests.builders.nodes import NodeBuilder
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.plan.made import template
from tests.plan.rounds import CURRENT, D, P, Round, current


def patches(
    pods: Iterable[PodBuilder], nodes: Iterable[NodeBuilder] = (), resource: ResourceBuilder | None = None
) -> dict[str, PodPatch]:
    return {patch.name: patch for patch in plan(observed(resource, pods, nodes), DEFAULTS).pod_patches}


def table(patch: PodPatch) -> PeerTable:
    return PeerTable.model_validate_json(patch.annotations[PEERS_ANNOTATION])


def peers(patch: PodPatch) -> set[str]:
    """Names of the pods of the other role."""
    return {peer.pod for peer in table(patch).peers if str(peer.role) not in patch.name}


def test_engines_that_are_paired_know_each_other_and_nobody_else() -> None:
    resource = a_resource().with_spec("transfer", "peersPerDecode", value=2)
    found = patches([*(current(P, n) for n in range(3)), *(current(D, n) for n in range(3))], resource=resource)
    known = {(name, peer) for name in found for peer in peers(found[name])}
    assert {len(peers(patch)) for patch in found.values()} == {2}
    assert known == {(peer, name) for name, peer in known}


def test_with_vllms_connector_all_engines_of_a_role_know_all_of_the_other() -> None:
    pulling = a_resource().pulling()
    revision = template(pulling)["metadata"]["labels"][REVISION_LABEL]
    pods = [a_ready_pod(role, n).of_revision(revision).listening_on(5600) for role in Role for n in range(6)]
    found = patches(pods, resource=pulling)
    assert {len(peers(patch)) for patch in found.values()} == {6}


@pytest.mark.parametrize(("instance_type", "meet"), [("p5en.48xlarge", False), ("none", True)])
def test_engines_in_different_zones_meet_only_where_the_network_can_cross_them(instance_type: str, meet: bool) -> None:
    nodes = [a_node("a").in_zone("zone-a"), a_node("b").in_zone("zone-b")]
    resource = a_resource().on(instance_type)
    found = patches([current(P).on_node("a"), current(D).on_node("b")], nodes, resource)
    assert bool(peers(found["qwen-decode-0"])) is meet


def test_a_pod_whose_node_is_not_known_is_taken_to_be_in_the_zone_of_the_others() -> None:
    resource = a_resource().on("p5en.48xlarge")
    found = patches([current(P).on_node("a"), current(D).on_node("new")], [a_node("a").in_zone("zone-a")], resource)
    assert peers(found["qwen-decode-0"]) == {"qwen-prefill-0"}


def test_engines_of_different_revisions_never_meet() -> None:
    found = patches(
        [current(P), a_ready_pod(P, 1).of_revision("old"), current(D), a_ready_pod(D, 1).of_revision("old")]
    )
    assert peers(found["qwen-decode-0"]) == {"qwen-prefill-0"}
    assert peers(found["qwen-decode-1"]) == {"qwen-prefill-1"}


def test_a_peer_is_described_as_its_pod_and_node_are() -> None:
    node = a_node("n").in_zone("use1-az4").under("top", "middle", "bottom")
    pod = current(P).on_node("n").running(restarts=2, since="2026-05-01T10:00:00Z").ready()
    (peer,) = table(patches([pod.with_label(TENSOR_LABEL, "8"), current(D)], [node])["qwen-decode-0"]).peers
    assert peer.engine == f"{pod.build()['metadata']['uid']}-2.20260501T100000Z"
    assert pod_of(peer.engine) == pod.build()["metadata"]["uid"]
    assert (peer.pod, peer.role, peer.state, peer.revision) == ("qwen-prefill-0", P, EngineState.READY, CURRENT)
    assert (peer.address.host, peer.address.http_port, peer.address.side_channel_port) == ("10.0.0.1", 8000, 5601)
    assert peer.parallelism.tensor == 8
    assert (peer.network.zone, peer.network.layers) == ("use1-az4", ("top", "middle", "bottom"))


def test_a_peer_is_reached_at_the_port_that_its_own_pod_was_made_with() -> None:
    found = patches([current(P).listening_on(5700), current(D)])
    assert table(found["qwen-decode-0"]).peers[0].address.side_channel_port == 5700
    assert table(found["qwen-prefill-0"]).peers[0].address.side_channel_port == 5601


def test_a_restarted_process_is_another_engine() -> None:
    before, after = current(P), current(P).running(restarts=1).ready()
    ids = {table(patches([pod, current(D)])["qwen-decode-0"]).peers[0].engine for pod in (before, after)}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (current(P), EngineState.READY),
        (current(P).with_condition("Ready", "False"), EngineState.STARTING),
        (current(P).terminating(), EngineState.DRAINING),
        (current(P).on_node("lost"), EngineState.DRAINING),
        (current(P).on_node("never seen"), EngineState.READY),
    ],
)
def test_the_state_of_a_peer_follows_from_its_pod_and_node(pod: PodBuilder, state: EngineState) -> None:
    scene = Round.of(current(P), current(D)).then(pod, nodes=(a_node("lost").not_ready(),))
    assert {peer.state for peer in scene.table(current(D)).peers} == {state}


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(P).of_revision(CURRENT),
        a_pod(P).of_revision(CURRENT).with_address("10.0.0.1"),
        a_pod(P).of_revision(CURRENT).running(),
        a_pod(P).of_revision(CURRENT).with_address("10.0.0.1").with_container(state={"waiting": {"reason": "x"}}),
        current(P).ended(),
        current(P).with_label(TENSOR_LABEL, "many"),
        current(P).with_label("tandem.dev/role", "other"),
    ],
)
def test_without_a_process_or_an_address_there_is_no_peer(pod: PodBuilder) -> None:
    assert peers(patches([pod, current(D)])["qwen-decode-0"]) == set()


def test_a_pod_has_a_table_before_its_process_starts_and_peers_when_it_has() -> None:
    found = patches([current(P), a_pod(D).of_revision(CURRENT)])
    assert {name: peers(patch) for name, patch in found.items()} == {"qwen-prefill-0": set(), "qwen-decode-0": set()}
    found = patches([current(P), a_pod(D).of_revision(CURRENT).with_address("10.0.0.9").running()])
    assert peers(found["qwen-decode-0"]) == {"qwen-prefill-0"}


@pytest.mark.parametrize("role", Role)
def test_a_ready_engine_of_the_wanted_revision_may_take_turns(role: Role) -> None:
    (patch,) = patches([current(role)]).values()
    assert patch.labels == {ROUTABLE_LABEL: "true"}
    assert patch.uid == current(role).build()["metadata"]["uid"]


@pytest.mark.parametrize(
    "pod",
    [
        current(D).with_condition("Ready", "False"),
        current(D).on_node("lost"),
        current(D).of_revision("old"),
    ],
)
def test_the_label_is_taken_from_an_engine_that_may_not(pod: PodBuilder) -> None:
    lost = a_node("lost").not_ready()
    had_it = settled(observed(pods=[current(D)])).pods[0]["metadata"]["annotations"][PEERS_ANNOTATION]
    found = patches([pod.routable().with_peers(had_it)], [lost])
    (patch,) = found.values()
    assert patch.labels == {}
    assert patch.annotations == {PEERS_ANNOTATION: had_it}, "a table that still holds keeps its generation"


def test_the_label_is_taken_from_an_engine_that_is_deleted() -> None:
    (patch,) = patches([current(D).routable().terminating()]).values()
    assert patch.labels == {}


def test_only_pods_whose_table_changed_are_patched() -> None:
    done = settled(observed(pods=[current(P), current(D), current(D, 1)]))
    pods = [PodBuilder(dict(pod)) for pod in done.pods]
    found = patches([*pods, current(D, 2)])
    assert table(found["qwen-decode-2"]).peers
    assert found.keys() == {"qwen-prefill-0", "qwen-decode-0", "qwen-decode-2"}, "its peer and its heir"
    assert {table(patch).generation for patch in found.values()} == {2}


def test_a_new_generation_is_above_all_that_any_pod_or_the_status_has_seen() -> None:
    high, low = (PeerTable.of(Generation(number), ()).to_annotation() for number in (7, 3))
    found = patches([current(P).with_peers(high), current(D).with_peers(low)])
    assert {table(patch).generation for patch in found.values()} == {8}
    status = Status(topology=Topology(generation=41))
    remembered = patches([current(D)], resource=a_resource().with_status(status))
    assert table(remembered["qwen-decode-0"]).generation == 42


@pytest.mark.parametrize(
    "annotation",
    [
        "",
        "{}",
        "null",
        "not json",
        '{"version":2,"generation":5,"digest":"e3b0c44298fc1c14","peers":[]}',
        '{"version":1,"generation":5,"digest":"forged","peers":[]}',
        '{"version": 1, "generation": 5, "digest": "e3b0c44298fc1c14", "peers": []}',
        '{"version":1,"generation":-5,"digest":"e3b0c44298fc1c14","peers":[]}',
        '{"version":1,"generation":99999999999999999999,"digest":"e3b0c44298fc1c14","peers":[]}',
    ],
)
def test_an_annotation_that_was_not_written_here_is_replaced(annotation: str) -> None:
    (patch,) = patches([current(D).with_peers(annotation)]).values()
    assert table(patch).peers == ()
    assert table(patch).generation in {1, 6}


def test_the_status_sums_the_tables_up() -> None:
    done = settled(observed(pods=[current(P), current(D), current(D, 1), a_pod(D, 2).of_revision(CURRENT)]))
    found = summary(done, engine_pods(done))
    assert (found.generation, found.engines, found.pairs) == (1, 4, 2)
    fewer = settled(observed(pods=[current(P), current(D)]))
    other = summary(fewer, engine_pods(fewer))
    assert found.digest != other.digest


def test_a_pods_ranks_are_one_entry_of_a_table_and_count_one_by_one() -> None:
    pods = [current(P).with_ranks(2), current(P, 1).with_ranks(2), current(D).with_ranks(3)]
    found = patches(pods)
    assert {peer.parallelism.data for peer in table(found["qwen-decode-0"]).peers} == {2}
    assert [peer.parallelism.data for peer in table(found["qwen-prefill-0"]).peers if peer.role is D] == [3]
    scene = Round.of(*pods)
    seen = observed(scene.resource, scene.pods.values())
    topology = summary(seen, engine_pods(seen))
    assert (topology.engines, topology.pairs) == (2 + 2 + 3, 4 * 3)


@pytest.mark.parametrize("label", ["0", "-1", "many", "", "256"])
def test_a_pod_whose_ranks_cannot_be_told_is_nobodys_peer(label: str) -> None:
    found = patches([current(P).with_label(DATA_LABEL, label), current(D)])
    assert peers(found["qwen-decode-0"]) == set()


def test_a_decode_pod_with_other_ranks_than_the_front_door_addresses_takes_no_turns() -> None:
    two, behind_another_gateway = (
        a_resource().with_data(2, D),
        a_resource().with_spec("frontDoor", "enabled", value=False),
    )
    for resource, takes in (
        (a_resource(), {"qwen-decode-0", "qwen-prefill-0"}),
        (two, {"qwen-decode-1", "qwen-prefill-0"}),
        (behind_another_gateway, {"qwen-decode-0", "qwen-decode-1", "qwen-prefill-0"}),
    ):
        revision = template(resource)["metadata"]["labels"][REVISION_LABEL]
        pods = [current(P), current(D), current(D, 1).with_ranks(2)]
        found = patches([pod.of_revision(revision) for pod in pods], resource=resource)
        assert {name for name, patch in found.items() if patch.labels.get(ROUTABLE_LABEL)} == takes
