# SPDX-License-Identifier: Apache-2.0
"""Whom an engine that ends is told to hand over to."""

import pytest

from tandem_connector.contract.types import EngineState, Role
from tests.builders import a_node, a_resource
from tests.builders.pods import PodBuilder
from tests.plan.rounds import CURRENT, D, P, Round, current, name

ONE = a_resource().with_spec("transfer", "peersPerDecode", value=1)


@pytest.mark.parametrize("role", Role)
def test_an_engine_that_is_deleted_drains_to_another_of_its_role_and_they_know_each_other(role: Role) -> None:
    ends, stays, other = current(role), current(role, 1), current(role.other)
    scene = Round.of(ends, stays, other).then(ends.terminating())
    assert scene.successor(ends) == name(stays)
    assert scene.peers(ends) == {name(stays), name(other)}
    assert scene.peers(stays) == {name(ends), name(other)}
    assert {peer.state for peer in scene.table(other).peers if peer.pod == name(ends)} == {EngineState.DRAINING}
    after = scene.then(without=(ends,))
    assert after.peers(stays) == {name(other)}
    assert len(after.table(stays).gone) == 1


def test_engines_that_are_not_deleted_do_not_drain() -> None:
    closed, lost = a_node("closed").cordoned(), a_node("lost").not_ready()
    pods = (current(D).on_node("closed"), current(D, 1).on_node("lost"), current(D, 2).with_condition("Ready", "False"))
    scene = Round.of(*pods, current(P), nodes=(closed, lost))
    assert {scene.table(pod).drain for pod in pods} == {None}


@pytest.mark.parametrize(
    "other",
    [
        current(D, 1).terminating(),
        current(D, 1).on_node("lost"),
        current(D, 1).with_condition("Ready", "False"),
        current(D, 1).of_revision("old"),
        current(P, 1),
    ],
)
def test_without_another_that_is_ready_and_alike_nobody_succeeds(other: PodBuilder) -> None:
    ends = current(D)
    scene = Round.of(ends, other, current(P), nodes=(a_node("lost").not_ready(),)).then(ends.terminating())
    assert scene.successor(ends) is None


def test_an_engine_drains_without_a_successor_where_nothing_is_to_be_handed_over() -> None:
    ends = current(D)
    keeping = a_resource().with_spec("scaling", value={"drain": {"migrate": False}})
    scene = Round.of(ends, current(D, 1), current(P), resource=keeping).then(ends.terminating())
    assert scene.successor(ends) is None
    assert scene.peers(ends) == {name(current(P))}


def test_an_engine_of_vllms_connector_does_not_drain() -> None:
    pods = [pod.listening_on(5600) for pod in (current(D), current(D, 1), current(P))]
    scene = Round.of(*pods).then(pods[0].terminating())
    assert scene.table(pods[0]).drain is None


def test_who_works_with_the_same_engines_comes_first() -> None:
    prefills = [current(P, number) for number in range(2)]
    scene = Round.of(*prefills, *(current(D, number) for number in range(4)), resource=ONE)
    ends = current(D)
    (same,) = [n for n in range(1, 4) if scene.peers(current(D, n)) == scene.peers(ends)]
    assert scene.then(ends.terminating()).successor(ends) == name(current(D, same))


def test_several_that_end_at_a_time_have_different_successors() -> None:
    decodes = [current(D, number) for number in range(4)]
    scene = Round.of(current(P), *decodes).then(*(each.terminating() for each in decodes[:2]))
    assert {scene.successor(each) for each in decodes[:2]} == {name(each) for each in decodes[2:]}


def test_who_is_on_a_node_that_takes_no_pods_any_more_comes_last() -> None:
    tolerated = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    nodes = (a_node("a").tainted("karpenter.sh/disrupted"), a_node("b").tainted("gpu", "true"), a_node("c").cordoned())
    ends, *others = (
        pod.with_tolerations(tolerated)
        for pod in (current(D), current(D, 1).on_node("a"), current(D, 2).on_node("b"), current(D, 3).on_node("c"))
    )
    scene = Round.of(current(P), ends, *others, nodes=nodes).then(ends.terminating())
    assert scene.successor(ends) == name(others[1])
    assert Round.of(current(P), ends, others[2], nodes=nodes).then(ends.terminating()).successor(ends) == name(
        others[2]
    )


def test_a_successor_remains_while_its_process_runs() -> None:
    ends, first = current(D), current(D, 1)
    scene = Round.of(current(P), ends, first).then(ends.terminating()).then(current(D, 2))
    assert scene.successor(ends) == name(first)
    assert scene.then(first.with_condition("Ready", "False")).successor(ends) == name(first)
    for lost in (first.running(restarts=1).with_condition("Ready", "False"), first.terminating()):
        assert scene.then(lost).successor(ends) == name(current(D, 2))
    assert scene.then(without=(first,)).successor(ends) == name(current(D, 2))


def test_a_successor_of_another_zone_is_none_where_the_network_can_not_cross_zones() -> None:
    nodes = (a_node("a").in_zone("zone-a"), a_node("b").in_zone("zone-b"))
    ends, other = current(D).on_node("a"), current(D, 1).on_node("b")
    scene = Round.of(ends, other, resource=a_resource().on("p5en.48xlarge"), nodes=nodes).then(ends.terminating())
    assert scene.successor(ends) is None


def test_a_pod_without_a_process_has_nothing_to_hand_over() -> None:
    ends = current(D).with_container(state={"waiting": {"reason": "ContainerCreating"}}).terminating()
    assert Round.of(ends.of_revision(CURRENT), current(D, 1)).successor(ends) is None
