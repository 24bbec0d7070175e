# SPDX-License-Identifier: Apache-2.0
"""Who is told ahead to have what an engine holds, and whom an engine that ends hands over to."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_connector.contract.types import EngineState, Role
from tandem_operator.api.rules import MAX_PEERS
from tandem_operator.plan.heirs import MOST_SUCCEEDED, heirs
from tandem_operator.plan.pods import engine_pods
from tests.builders import a_node, a_resource, observed
from tests.builders.pods import PodBuilder
from tests.plan.rounds import CURRENT, D, P, Round, current, name, uid

ONE = a_resource().with_spec("transfer", "peersPerDecode", value=1)
STARTS = current(D).with_condition("Ready", "False")
NODES = (a_node("a"), a_node("b"), a_node("c").cordoned(), a_node("lost").not_ready())


@pytest.mark.parametrize("role", Role)
def test_an_engine_knows_its_heir_before_it_ends_and_drains_to_it(role: Role) -> None:
    ends, stays, other = current(role), current(role, 1), current(role.other)
    scene = Round.of(ends, stays, other)
    assert (scene.heir(ends), scene.heir(stays), scene.heir(other)) == (name(stays), name(ends), None)
    before = scene.table(ends)
    scene = scene.then(ends.terminating())
    assert (scene.heir(ends), scene.table(ends).heir) == (name(stays), before.heir)
    assert scene.table(ends).drain is not None
    assert (scene.peers(ends), scene.kin(ends)) == ({name(other)}, {name(stays)})
    assert (scene.peers(stays), scene.kin(stays)) == ({name(other)}, {name(ends)})
    assert {peer.state for peer in scene.table(other).peers if peer.pod == name(ends)} == {EngineState.DRAINING}
    after = scene.then(without=(ends,))
    assert (after.peers(stays), after.kin(stays), after.heir(stays)) == ({name(other)}, set(), None)
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
        current(D, 1).with_container(state={"waiting": {"reason": "CrashLoopBackOff"}}),
        current(D, 1).of_revision("old"),
        current(P, 1),
    ],
)
def test_without_another_that_runs_and_is_alike_there_is_no_heir(other: PodBuilder) -> None:
    scene = Round.of(current(D), other, current(P), nodes=(a_node("lost").not_ready(),))
    assert scene.heir(current(D)) is None
    assert scene.then(current(D).terminating()).heir(current(D)) is None


def test_there_are_no_heirs_where_nothing_is_to_be_handed_over() -> None:
    ends = current(D)
    keeping = a_resource().with_spec("scaling", value={"drain": {"migrate": False}})
    scene = Round.of(ends, current(D, 1), current(P), resource=keeping)
    for each in (scene, scene.then(ends.terminating())):
        assert (each.heir(ends), each.kin(ends), each.peers(ends)) == (None, set(), {name(current(P))})


def test_an_engine_of_vllms_connector_has_no_heir_and_does_not_drain() -> None:
    pods = [pod.listening_on(5600) for pod in (current(D), current(D, 1), current(P))]
    scene = Round.of(*pods)
    assert scene.heir(pods[0]) is None
    assert scene.then(pods[0].terminating()).table(pods[0]).drain is None


def test_who_works_with_the_same_engines_comes_first() -> None:
    prefills = [current(P, number) for number in range(2)]
    scene = Round.of(*prefills, *(current(D, number) for number in range(4)), resource=ONE)
    (same,) = [n for n in range(1, 4) if scene.peers(current(D, n)) == scene.peers(current(D))]
    assert scene.heir(current(D)) == name(current(D, same))


def test_who_is_ready_comes_before_who_starts() -> None:
    for prefills in ((), (current(P),)):
        scene = Round.of(STARTS, current(D, 1), current(D, 2), *prefills)
        assert scene.heir(current(D, 2)) == name(current(D, 1))


def test_of_those_that_are_scaled_down_together_each_hands_over_to_one_that_stays() -> None:
    decodes = [current(D, number) for number in range(12)]
    scene = Round.of(current(P), *decodes).then(*(each.terminating() for each in decodes[6:]))
    assert {scene.heir(each) for each in decodes[6:]} <= {name(each) for each in decodes[:6]}


def test_one_on_another_node_comes_first_since_nodes_end_with_all_that_is_on_them() -> None:
    decodes = [current(D, number).on_node("ab"[number // 4]) for number in range(8)]
    scene = Round.of(current(P), *decodes, nodes=NODES)
    on_a, on_b = ({name(each) for each in half} for half in (decodes[:4], decodes[4:]))
    assert {scene.heir(each) for each in decodes[:4]} <= on_b
    assert {scene.heir(each) for each in decodes[4:]} <= on_a


def test_who_is_on_a_node_that_takes_no_pods_any_more_comes_last() -> None:
    tolerated = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    nodes = (a_node("a").tainted("karpenter.sh/disrupted"), a_node("b").tainted("gpu", "true"), a_node("c").cordoned())
    first, *others = (
        pod.with_tolerations(tolerated)
        for pod in (current(D), current(D, 1).on_node("a"), current(D, 2).on_node("b"), current(D, 3).on_node("c"))
    )
    assert Round.of(current(P), first, *others, nodes=nodes).heir(first) == name(others[1])
    assert Round.of(current(P), first, others[2], nodes=nodes).heir(first) == name(others[2])


def test_an_heir_whose_node_takes_no_pods_any_more_is_replaced_if_there_is_another() -> None:
    first, second, third = current(D), current(D, 1).on_node("a"), current(D, 2).on_node("b")
    scene = Round.of(first, second, third, nodes=NODES)
    assert scene.heir(first) == name(second)
    cordoned = scene.then(nodes=(a_node("a").cordoned(), *NODES[1:]))
    assert cordoned.heir(first) == name(third)
    assert cordoned.then(nodes=NODES).heir(first) == name(third)
    both = scene.then(nodes=(a_node("a").cordoned(), a_node("b").cordoned()))
    assert both.heir(first) == name(second)


def test_an_heir_is_kept_where_all_nodes_take_no_pods_any_more() -> None:
    decodes = [current(D, number).on_node("c") for number in range(4)]
    scene = Round.of(current(P), *decodes[1:], nodes=NODES)
    heir = scene.heir(decodes[1])
    assert scene.then(decodes[0]).heir(decodes[1]) == heir == name(decodes[2])


def test_an_heir_remains_while_its_process_runs() -> None:
    first, heir = current(D), current(D, 1)
    scene = Round.of(current(P), first, heir).then(current(D, 2))
    assert scene.heir(first) == name(heir)
    assert scene.then(heir.with_condition("Ready", "False")).heir(first) == name(heir)
    restarted = heir.running(restarts=1).with_condition("Ready", "False")
    for lost in (restarted, heir.terminating(), heir.on_node("lost")):
        assert scene.then(lost, nodes=NODES).heir(first) == name(current(D, 2))
    assert scene.then(without=(heir,)).heir(first) == name(current(D, 2))


def test_an_engine_that_ends_keeps_its_heir_though_that_one_ends_and_gets_no_other() -> None:
    ends, heir, other = current(D), current(D, 1), current(D, 2)
    scene = Round.of(current(P), ends, heir, other).then(ends.terminating()).then(heir.terminating())
    assert (scene.heir(ends), scene.heir(other)) == (name(heir), None)
    assert scene.then(without=(heir,)).heir(ends) is None


def test_an_heir_of_another_zone_is_none_where_the_network_can_not_cross_zones() -> None:
    nodes = (a_node("a").in_zone("zone-a"), a_node("b").in_zone("zone-b"))
    first, other = current(D).on_node("a"), current(D, 1).on_node("b")
    scene = Round.of(first, other, resource=a_resource().on("p5en.48xlarge"), nodes=nodes)
    assert scene.heir(first) is None


def test_a_pod_without_a_process_has_nothing_to_hand_over() -> None:
    pod = current(D).with_container(state={"waiting": {"reason": "ContainerCreating"}})
    scene = Round.of(pod.of_revision(CURRENT), current(D, 1))
    assert scene.heir(pod) is None
    assert scene.then(pod.terminating()).heir(pod) is None


def test_nobody_has_more_peers_than_it_can_address_for_its_heir() -> None:
    full, almost, *others = pods = [current(D, number) for number in range(6)]
    peers = {uid(each): frozenset[str]() for each in pods}
    peers[uid(full)] = frozenset(f"peer-{number}" for number in range(MAX_PEERS))
    peers[uid(almost)] = frozenset(f"peer-{number}" for number in range(MAX_PEERS - 1))
    found = decided(pods, {**dict.fromkeys(peers[uid(full)], frozenset()), **peers})
    assert uid(full) not in {*found, *found.values()}
    assert {each for each in found if found[each] == uid(almost)} == {found[uid(almost)]}, (
        "it knows its own heir already"
    )
    assert {uid(each) for each in others} <= found.keys()


def test_the_ranks_of_an_heir_count_one_by_one_among_those_that_can_be_addressed() -> None:
    for ranks, fits in ((5, True), (6, False)):
        first, second = pods = [current(D, number).with_ranks(ranks) for number in range(2)]
        known = frozenset(f"peer-{number}" for number in range(MAX_PEERS - 5))
        peers = {uid(first): known, uid(second): frozenset[str]()}
        found = decided(pods, {**dict.fromkeys(known, frozenset()), **peers})
        assert (uid(first) in found) is fits


class Pools:
    """Decode engines that all work with one prefill engine, over several decisions."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.pods = {name(pod): pod for pod in (self.some(number) for number in range(random.randint(0, 9)))}

    def some(self, number: int) -> PodBuilder:
        pod = current(D, number).on_node(self.random.choice(("a", "a", "b", "b", "c", "lost")))
        return self.random.choice((pod, pod, pod, pod.with_condition("Ready", "False"), pod.terminating()))

    def settled(self) -> Round:
        return Round.of(current(P), *self.pods.values(), nodes=NODES)


def named(scene: Round) -> Mapping[str, str | None]:
    return {each: scene.heir(pod) for each, pod in scene.pods.items()}


def staying(scene: Round) -> set[str]:
    pods = engine_pods(observed(scene.resource, scene.pods.values(), scene.nodes))
    return {pod.name for pod in pods if pod.peer and pod.peer.state is not EngineState.DRAINING}


# True randomness, from a seed that Hypothesis chooses, as for pairs.
randoms = st.randoms(use_true_random=True)
SOME = settings(max_examples=60, deadline=None)


def changes(random: Random) -> tuple[Round, Round]:
    """A pool that is settled, and then with one decode engine more, less or ending."""
    pools = Pools(random)
    before = pools.settled()
    for _ in range(random.randint(0, 3)):
        before = changed(random, pools, before)
    return before, changed(random, pools, before)


def changed(random: Random, pools: Pools, scene: Round) -> Round:
    number = random.randint(0, 9)
    here = scene.pods.get(name(current(D, number)))
    if here is None:
        return scene.then(pools.some(number))
    return scene.then(without=(here,)) if random.random() < 0.5 else scene.then(here.terminating())


@given(random=randoms)
@SOME
def test_every_engine_that_stays_has_an_heir_that_stays_and_none_is_the_heir_of_many(random: Random) -> None:
    _, scene = changes(random)
    stay, heir_of = staying(scene), named(scene)
    decodes = stay - {name(current(P))}
    for each in decodes:
        heir = heir_of[each]
        assert (heir in decodes - {each}) if len(decodes) > 1 else heir is None
        assert heir is None or heir in scene.kin(scene.pods[each])
        assert heir is None or each in scene.kin(scene.pods[heir])
    succeeded = Counter(heir_of[each] for each in decodes if heir_of[each])
    assert max(succeeded.values(), default=0) <= MOST_SUCCEEDED


@given(random=randoms)
@SOME
def test_when_one_comes_or_goes_few_get_another_heir_and_deciding_again_changes_nothing(random: Random) -> None:
    before, after = changes(random)
    old, new = named(before), named(after)
    assert sum(old[each] != new[each] for each in old.keys() & new.keys()) <= MOST_SUCCEEDED + 2
    assert after.settled().patched == frozenset()


def decided(pods: Sequence[PodBuilder], peers: Mapping[str, Set[str]] | None = None) -> Mapping[str, str]:
    seen = {pod.uid: pod for pod in engine_pods(observed(a_resource(), pods))}
    return heirs(seen, dict.fromkeys(seen, ("r1",)), peers or dict.fromkeys(seen, frozenset()))


@given(random=randoms)
@SOME
def test_the_order_in_which_pods_are_given_does_not_matter(random: Random) -> None:
    pods = [current(D, number) for number in range(9)]
    shuffled = random.sample(pods, len(pods))
    assert decided(pods) == decided(shuffled)


def test_five_thousand_engines_have_heirs_evenly() -> None:
    found = decided([current(D, number) for number in range(5_000)])
    assert len(found) == 5_000
    assert max(Counter(found.values()).values()) == MOST_SUCCEEDED
    assert found[uid(current(D, 4_000))] == uid(current(D, 2_000))
