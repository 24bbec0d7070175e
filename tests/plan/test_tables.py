# SPDX-License-Identifier: Apache-2.0
"""What a peer table says of those who left it, over several reconciles."""

from dataclasses import replace

from tandem_connector.contract.peers import MAX_GONE
from tandem_operator.api.names import FORMER_PEERS_ANNOTATION
from tests.builders import a_node, a_resource
from tests.builders.pods import PodBuilder
from tests.plan.rounds import D, P, Round, current, name, uid


def former(scene: Round, pod: PodBuilder) -> str | None:
    annotations: dict[str, str] = scene.pods[name(pod)].build()["metadata"]["annotations"]
    return annotations.get(FORMER_PEERS_ANNOTATION)


def as_known(pod: PodBuilder) -> str:
    """As a former peer is remembered."""
    manifest = pod.build()
    return f"{manifest['metadata']['uid']}@{manifest['status']['podIP']}"


def waiting(pod: PodBuilder) -> PodBuilder:
    return pod.with_container(state={"waiting": {"reason": "CrashLoopBackOff"}})


def test_a_pod_that_exists_no_more_is_named_as_gone_to_those_who_knew_it_and_stays_so() -> None:
    first, second, decode = current(P), current(P, 1), current(D)
    scene = Round.of(first, second, decode).then(without=(first,))
    assert scene.patched == {name(decode), name(second)}
    assert scene.table(decode).gone == (uid(first),)
    assert scene.settled().patched == frozenset()
    assert scene.then(without=(second,)).table(decode).gone == (uid(first), uid(second))


def test_a_pod_that_has_ended_is_gone_and_one_without_a_process_is_not() -> None:
    prefill, decode = current(P), current(D)
    for pod, gone in (
        (prefill.ended(), (uid(prefill),)),
        (prefill.ended("Succeeded"), (uid(prefill),)),
        (waiting(prefill), ()),
    ):
        table = Round.of(prefill, decode).then(pod).table(decode)
        assert (table.peers, table.gone) == ((), gone)


def test_a_pod_that_is_deleted_is_gone_as_soon_as_its_engine_has_ended() -> None:
    prefill, decode = current(P), current(D)
    ended = prefill.terminating().with_container(state={"terminated": {"exitCode": 0}})
    scene = Round.of(prefill, decode).then(prefill.terminating())
    assert (scene.peers(decode), scene.table(decode).gone) == ({name(prefill)}, ())
    scene = scene.then(ended)
    assert (scene.peers(decode), scene.table(decode).gone) == (set(), (uid(prefill),))
    assert scene.then(without=(prefill,)).patched == frozenset()


def test_an_engine_that_never_knew_a_pod_is_not_told_of_its_end() -> None:
    prefill, late = current(P), current(D, 1)
    assert Round.of(prefill, current(D)).then(late, without=(prefill,)).table(late).gone == ()


def test_a_pod_that_left_the_table_before_it_was_gone_is_named_when_it_is() -> None:
    one = a_resource().with_spec("transfer", "peersPerDecode", value=1)
    prefills, decode = (current(P), current(P, 1)), current(D)
    scene = Round.of(*prefills, decode).then(resource=one)
    (left,) = [prefill for prefill in prefills if name(prefill) not in scene.peers(decode)]
    assert (former(scene, decode), scene.table(decode).gone) == (as_known(left), ())
    scene = scene.then(without=(left,))
    assert (former(scene, decode), scene.table(decode).gone) == (None, (uid(left),))


def test_a_pod_that_comes_back_into_the_table_is_no_former_one() -> None:
    prefill, decode = current(P), current(D)
    scene = Round.of(prefill, decode).then(waiting(prefill))
    assert former(scene, decode) == as_known(prefill)
    scene = scene.then(prefill.running(restarts=1).ready())
    assert (scene.peers(decode), former(scene, decode)) == ({name(prefill)}, None)


def test_a_former_peer_whose_pod_has_another_address_has_ended_until_it_is_listed_again() -> None:
    one = a_resource().with_spec("transfer", "peersPerDecode", value=1)
    prefills, decode = (current(P), current(P, 1)), current(D)
    scene = Round.of(*prefills, decode).then(resource=one)
    (left,) = [prefill for prefill in prefills if name(prefill) not in scene.peers(decode)]
    without_address = left.with_address("").with_container(state={"waiting": {"reason": "ContainerCreating"}})
    scene = scene.then(without_address)
    assert (former(scene, decode), scene.table(decode).gone) == (as_known(left), ())
    moved = left.with_address("10.0.9.9").running(restarts=1).ready()
    scene = scene.then(moved)
    assert (former(scene, decode), scene.table(decode).gone) == (None, (uid(left),))
    assert scene.settled().patched == frozenset()
    scene = scene.then(resource=a_resource())
    assert (name(left) in scene.peers(decode), scene.table(decode).gone) == (True, ())
    assert scene.then(resource=one, without=(moved,)).table(decode).gone == (uid(left),)


def test_a_peer_that_has_another_address_is_listed_under_it_and_has_not_ended() -> None:
    prefill, decode = current(P), current(D)
    scene = Round.of(prefill, decode).then(prefill.with_address("10.0.9.9").running(restarts=1).ready())
    (peer,) = scene.table(decode).peers
    assert (peer.address.host, scene.table(decode).gone, former(scene, decode)) == ("10.0.9.9", (), None)


def test_a_former_peer_whose_address_was_not_written_down_ends_with_its_pod() -> None:
    prefill, decode = current(P), current(D)
    scene = Round.of(prefill, decode).then(waiting(prefill))
    metadata = scene.pods[name(decode)].build()["metadata"]
    annotations = {**metadata["annotations"], FORMER_PEERS_ANNOTATION: uid(prefill)}
    older = scene.pods[name(decode)].patched(metadata["labels"], annotations)
    scene = replace(scene, pods={**scene.pods, name(decode): older}).then(waiting(prefill.with_address("10.0.9.9")))
    assert (scene.table(decode).gone, former(scene, decode)) == ((), uid(prefill))
    assert scene.then(without=(prefill,)).table(decode).gone == (uid(prefill),)


def test_a_pod_that_no_set_controls_for_a_moment_is_not_gone() -> None:
    prefill, decode = current(P), current(D)
    scene = Round.of(prefill, decode).then(without=(prefill,), strangers=frozenset({uid(prefill)}))
    assert (scene.table(decode).gone, former(scene, decode)) == ((), as_known(prefill))
    assert scene.then(prefill, strangers=frozenset()).peers(decode) == {name(prefill)}


def test_of_those_that_are_gone_the_latest_are_remembered() -> None:
    decode = current(D)
    scene = Round.of(decode)
    for number in range(MAX_GONE + 2):
        prefill = current(P, 200 + number)
        scene = scene.then(prefill).then(without=(prefill,))
    gone = scene.table(decode).gone
    assert (len(gone), gone[0], gone[-1]) == (MAX_GONE, uid(current(P, 202)), uid(prefill))


def test_an_engine_in_a_crash_loop_keeps_its_pairs_and_others_get_another_meanwhile() -> None:
    one = a_resource().with_spec("transfer", "peersPerDecode", value=1)
    prefills, decode = (current(P), current(P, 1)), current(D)
    scene = Round.of(*prefills, decode, resource=one)
    crashed, other = sorted(prefills, key=lambda each: name(each) not in scene.peers(decode))
    scene = scene.then(waiting(crashed))
    assert (scene.peers(decode), scene.peers(crashed)) == ({name(other)}, {name(decode)})
    scene = scene.then(crashed.running(restarts=1).with_condition("Ready", "False"))
    assert scene.peers(decode) == {name(crashed), name(other)}
    assert len(scene.then(crashed.running(restarts=1).ready()).peers(decode)) == 1


def test_pods_of_a_node_that_does_not_answer_keep_their_pairs_get_none_and_are_replaced() -> None:
    one = a_resource().with_spec("transfer", "peersPerDecode", value=1)
    nodes = (a_node("a"), a_node("b"))
    first, second = current(P).on_node("a"), current(P, 1).on_node("b")
    scene = Round.of(first, current(D), resource=one, nodes=nodes).then(second)
    lost = scene.then(nodes=(a_node("a").not_ready(), a_node("b")))
    assert lost.peers(current(D)) == {name(first), name(second)}
    assert lost.table(first).drain is None
    assert lost.then(current(D, 1)).peers(current(D, 1)) == {name(second)}
