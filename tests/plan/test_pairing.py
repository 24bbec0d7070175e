# SPDX-License-Identifier: Apache-2.0
"""Who is paired with whom: what holds for any engines and any pairs that exist, and what is chosen where there is a choice."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_connector.contract.types import Role
from tandem_operator.api.rules import MAX_PEERS
from tandem_operator.plan.pairing import pairing
from tandem_operator.plan.pairs import Engine, Pair, Standing

P, D = Role.PREFILL, Role.DECODE
READY, STARTING, LEAVING = Standing
RACKS = (("z", "a", "left"), ("z", "a", "right"), ("z", "b", "far"), ())


def engine(
    role: Role,
    number: int,
    standing: Standing = READY,
    place: tuple[str, ...] = RACKS[0],
    kind: tuple[str, ...] = ("r1",),
    *,
    ranks: int = 1,
) -> Engine:
    return Engine(f"{role}-{number:05}", role, kind, place, standing, ranks)


def pool(role: Role, count: int, standing: Standing = READY, place: tuple[str, ...] = RACKS[0]) -> list[Engine]:
    return [engine(role, number, standing, place) for number in range(count)]


def pair(prefill: int, decode: int) -> Pair:
    return Pair(f"prefill-{prefill:05}", f"decode-{decode:05}")


def of_decode(pairs: Iterable[Pair], decode: int) -> set[int]:
    return {int(each.prefill.removeprefix("prefill-")) for each in pairs if each.decode == pair(0, decode).decode}


def loads(pairs: Iterable[Pair]) -> Counter[str]:
    return Counter(each.prefill for each in pairs)


@dataclass(frozen=True)
class Scene:
    """Engines, the pairs that exist, and the bounds."""

    engines: tuple[Engine, ...]
    present: frozenset[Pair]
    per_decode: int
    most: int

    def decided(self) -> frozenset[Pair]:
        return pairing(self.engines, self.present, self.per_decode, self.most)

    def by_uid(self) -> dict[str, Engine]:
        return {each.uid: each for each in self.engines}

    def all_of(self, role: Role) -> list[Engine]:
        return [each for each in self.engines if each.role is role]

    def room(self, of: Engine) -> int:
        """For how many pods of the other role it has room, if all have as many ranks as one has."""
        others = (each.ranks for each in self.engines if each.role is not of.role and each.kind == of.kind)
        return self.most // max(others, default=1)

    def wanted(self) -> int:
        """Pairs of a decode engine, if all engines stay."""
        return min(self.per_decode, len(self.all_of(P)))

    def little(self) -> int:
        """Three quarters of a prefill engine's share."""
        return -(-3 * (self.wanted() * len(self.all_of(D)) // len(self.all_of(P))) // 4)

    def after(self, pairs: frozenset[Pair]) -> "Scene":
        return replace(self, present=pairs)


def some(random: Random, role: Role, most: int) -> list[Engine]:
    standings, kinds = (READY, READY, STARTING, LEAVING), (("r1",), ("r1",), ("r2",))
    return [
        engine(
            role,
            number,
            random.choice(standings),
            random.choice(RACKS),
            random.choice(kinds),
            ranks=random.choice((1, 1, 1, 1, 1, 2)),
        )
        for number in range(random.randint(0, most))
    ]


def any_scene(random: Random) -> Scene:
    """Few engines and narrow bounds, so that all of them are met; any pairs at all."""
    engines = [*some(random, P, 6), *some(random, D, 9)]
    random.shuffle(engines)
    pairs = [pair(random.randint(0, 6), random.randint(0, 9)) for _ in range(random.randint(0, 40))]
    return Scene(tuple(engines), frozenset(pairs), random.randint(1, 4), random.choice((2, 3, 4, MAX_PEERS)))


def settled_scene(random: Random) -> Scene:
    """Pools of a usual shape that have been paired, all ready."""
    prefills = [engine(P, number, place=random.choice(RACKS)) for number in range(random.randint(2, 12))]
    decodes = [engine(D, number, place=random.choice(RACKS)) for number in range(random.randint(2, 24))]
    scene = Scene((*prefills, *decodes), frozenset(), random.randint(1, 4), MAX_PEERS)
    return scene.after(scene.decided())


MANY = settings(max_examples=500, deadline=None)
# True randomness, from a seed that Hypothesis chooses: its own choices rarely fill the bounds.
scenes = st.randoms(use_true_random=True).map(any_scene)


@given(scene=scenes)
@MANY
def test_bounds_and_kinds_hold_whatever_there_was(scene: Scene) -> None:
    pairs, by_uid = scene.decided(), scene.by_uid()
    for own, other in ((0, 1), (1, 0)):
        addressed = Counter[str]()
        for each in pairs:
            addressed[each[own]] += by_uid[each[other]].ranks
        assert max(addressed.values(), default=0) <= scene.most
    for each in pairs:
        prefill, decode = by_uid[each.prefill], by_uid[each.decode]
        assert (prefill.role, decode.role) == (P, D)
        assert prefill.kind == decode.kind
    for engine_ in scene.engines:
        if engine_.role is D and engine_.standing is not LEAVING:
            peers = [by_uid[known.prefill] for known in pairs if known.decode == engine_.uid]
            ready = sum(peer.standing is READY for peer in peers)
            assert sum(peer.standing is not LEAVING for peer in peers) <= scene.per_decode + (ready == 1)


@given(scene=scenes)
@MANY
def test_no_decode_engine_is_without_a_ready_prefill_engine_that_could_be_had(scene: Scene) -> None:
    pairs, by_uid = scene.decided(), scene.by_uid()
    ready = {each.uid for each in scene.engines if each.role is P and each.standing is READY}
    for each in scene.engines:
        if each.role is D and each.standing is not LEAVING and not any(Pair(p, each.uid) in pairs for p in ready):
            for p in ready:
                if by_uid[p].kind == each.kind:
                    holders = [known.decode for known in pairs if known.prefill == p]
                    assert len(holders) == scene.room(by_uid[p])
                    for holder in holders:
                        assert by_uid[holder].standing is not LEAVING
                        assert sum(Pair(other, holder) in pairs for other in ready) == 1


@given(scene=scenes)
@MANY
def test_nobody_lacks_a_pair_that_could_be_had(scene: Scene) -> None:
    pairs, by_uid = scene.decided(), scene.by_uid()
    staying = [each for each in scene.engines if each.standing is not LEAVING]
    degree = Counter(uid for each in pairs for uid in each)
    for decode in (each for each in staying if each.role is D):
        counted = sum(known.decode == decode.uid and by_uid[known.prefill].standing is not LEAVING for known in pairs)
        for prefill in (each for each in staying if each.role is P and each.kind == decode.kind):
            if Pair(prefill.uid, decode.uid) not in pairs and counted < scene.per_decode:
                assert degree[prefill.uid] == scene.room(prefill) or degree[decode.uid] == scene.room(decode)


@given(scene=scenes)
@MANY
def test_the_order_of_what_is_given_means_nothing(scene: Scene) -> None:
    decided = scene.decided()
    for engines in (scene.engines[::-1], sorted(scene.engines, key=lambda each: each.uid)):
        assert replace(scene, engines=tuple(engines)).decided() == decided


@given(scene=scenes)
@MANY
def test_deciding_again_changes_nothing(scene: Scene) -> None:
    pairs = scene.decided()
    assert scene.after(pairs).decided() == pairs


@given(scene=scenes)
@MANY
def test_engines_that_leave_get_no_new_pairs(scene: Scene) -> None:
    by_uid = scene.by_uid()
    for each in scene.decided() - scene.present:
        assert LEAVING not in (by_uid[each.prefill].standing, by_uid[each.decode].standing)


@given(scene=scenes)
@MANY
def test_pairs_of_engines_that_leave_are_kept_within_the_bound(scene: Scene) -> None:
    scene = replace(scene, most=MAX_PEERS)
    pairs, by_uid = scene.decided(), scene.by_uid()
    for each in scene.present - pairs:
        known = [by_uid[uid] for uid in each if uid in by_uid]
        if len(known) == 2 and known[0].kind == known[1].kind:
            assert LEAVING not in (known[0].standing, known[1].standing)


@given(random=st.randoms(use_true_random=True))
@MANY
def test_one_engine_more_or_less_changes_few_pairs_besides_its_own(random: Random) -> None:
    """For each of its own one goes elsewhere, or is taken over; and one of each prefill engine when its share grew by a step."""
    scene = settled_scene(random)
    one = random.choice(scene.engines)
    fewer = replace(scene, engines=tuple(each for each in scene.engines if each is not one))
    for before, after in ((scene, fewer), (fewer.after(fewer.decided()), scene)):
        pairs = replace(after, present=before.present).decided()
        own = sum(one.uid in each for each in before.present | pairs)
        wanted = before.wanted() - after.wanted()
        step = max(0, after.little() - before.little())
        allowed = 3 * own + abs(wanted) * len(after.all_of(D)) + 2 * step * len(after.all_of(P))
        assert len(before.present ^ pairs) <= allowed


def test_each_decode_engine_has_as_many_as_are_wanted_and_all_prefill_engines_about_the_same() -> None:
    pairs = pairing([*pool(P, 10), *pool(D, 25)], (), 4)
    assert Counter(each.decode for each in pairs).most_common()[-1][1] == 4
    assert set(loads(pairs).values()) == {10}


def test_with_fewer_prefill_engines_than_are_wanted_all_know_all() -> None:
    assert pairing([*pool(P, 2), *pool(D, 3)], (), 4) == {pair(p, d) for p in range(2) for d in range(3)}


def test_near_prefill_engines_come_first_and_the_others_when_these_have_much_more_than_their_share() -> None:
    left = [engine(P, number, place=RACKS[0]) for number in range(2)]
    right = [engine(P, number, place=RACKS[2]) for number in range(2, 4)]
    near = pairing([*left, *right, *pool(D, 1, place=RACKS[0]), engine(D, 1, place=RACKS[2])], (), 2)
    assert (of_decode(near, 0), of_decode(near, 1)) == ({0, 1}, {2, 3})
    for standing in (READY, STARTING):
        prefills = [engine(P, number, standing, RACKS[2 * (number > 0)]) for number in range(4)]
        crowd = pairing([*prefills, *pool(D, 32, place=RACKS[0])], (), 1)
        assert sorted(loads(crowd).values()) == [7, 7, 8, 10]


def test_all_have_their_first_before_any_has_its_second() -> None:
    pairs = pairing([*pool(P, 1), engine(P, 1, STARTING), *pool(D, 4)], (), 2, most=3)
    assert {len(of_decode(pairs, d)) for d in range(4)} == {1, 2}


def test_engines_of_other_kinds_are_not_paired() -> None:
    pairs = pairing([engine(P, 0, kind=("r1", "zone-a")), engine(D, 0, kind=("r1", "zone-b"))], (), 4)
    assert pairs == frozenset()


def test_pairs_that_exist_are_kept_though_others_are_nearer() -> None:
    exists = {pair(0, 0)}
    far, near = engine(P, 0, place=RACKS[2]), engine(P, 1, place=RACKS[0])
    assert pairing([far, near, *pool(D, 1)], exists, 1) == exists


def test_when_fewer_are_wanted_the_nearest_stay() -> None:
    prefills = [engine(P, number, place=RACKS[number]) for number in range(3)]
    exists = {pair(p, 0) for p in range(3)}
    assert of_decode(pairing([*prefills, *pool(D, 1)], exists, 2), 0) == {0, 1}


def test_a_prefill_engine_that_leaves_is_kept_and_replaced() -> None:
    exists = {pair(0, 0), pair(1, 0)}
    pairs = pairing([engine(P, 0, LEAVING), engine(P, 1), engine(P, 2), *pool(D, 1)], exists, 2)
    assert of_decode(pairs, 0) == {0, 1, 2}


def test_a_decode_engine_that_has_none_that_is_ready_gets_one_beside_those_it_waits_for() -> None:
    waiting = {pair(0, 0), pair(1, 0)}
    engines = [engine(P, 0, STARTING), engine(P, 1, STARTING), engine(P, 2), *pool(D, 1)]
    pairs = pairing(engines, waiting, 2)
    assert of_decode(pairs, 0) == {0, 1, 2}
    then = pairing([engine(P, 0), *engines[1:]], pairs, 2)
    assert len(of_decode(then, 0)) == 2


def test_a_decode_engine_without_any_takes_one_from_who_has_two() -> None:
    exists = {pair(p, d) for p in range(2) for d in range(2)}
    pairs = pairing([*pool(P, 2), *pool(D, 3)], exists, 2, most=2)
    assert min(len(of_decode(pairs, d)) for d in range(3)) == 1


def test_what_ends_so_that_somebody_is_served_is_had_by_others() -> None:
    waiting = pool(P, 2, STARTING)
    exists = {pair(p, d) for p in range(2) for d in range(2)}
    pairs = pairing([*waiting, engine(P, 2), *pool(D, 3)], exists, 2, most=2)
    assert {len(of_decode(pairs, d)) for d in range(3)} == {2}


def test_one_that_joins_takes_over_from_those_that_are_ready_where_all_wait_for_others() -> None:
    exists = {pair(p, d) for p in range(2) for d in range(4)}
    engines = [engine(P, 0, STARTING), engine(P, 1), engine(P, 2), *pool(D, 4)]
    pairs = pairing(engines, exists, 1)
    assert loads(pairs) == {pair(p, 0).prefill: load for p, load in enumerate((4, 3, 1))}
    assert pairing(engines, pairs, 1) == pairs


def test_a_prefill_engine_that_joins_takes_over_three_quarters_of_its_share_and_no_more() -> None:
    before = pairing([*pool(P, 4), *pool(D, 20)], (), 2)
    after = pairing([*pool(P, 5), *pool(D, 20)], before, 2)
    assert loads(after)[pair(4, 0).prefill] == 6
    assert len(before - after) == len(after - before) == 6


def test_one_that_starts_takes_over_nothing_yet() -> None:
    before = pairing([*pool(P, 4), *pool(D, 20)], (), 2)
    assert pairing([*pool(P, 4), engine(P, 4, STARTING), *pool(D, 20)], before, 2) == before


def test_an_engine_is_never_paired_with_more_than_the_transport_can_address() -> None:
    pairs = pairing([*pool(P, 1), *pool(D, 300)], (), 4)
    assert len(pairs) == MAX_PEERS == 255


def test_data_parallel_ranks_count_one_by_one_among_those_that_can_be_addressed() -> None:
    crowd = [engine(D, number, ranks=8) for number in range(40)]
    assert len(pairing([*pool(P, 1), *crowd], (), 4)) == MAX_PEERS // 8 == 31
    prefills = [engine(P, number, ranks=100) for number in range(4)]
    assert len(of_decode(pairing([*prefills, *pool(D, 1)], (), 4), 0)) == MAX_PEERS // 100


def test_pods_that_get_more_ranks_leave_those_that_cannot_address_them_any_more() -> None:
    before = pairing([*pool(P, 1), *pool(D, 200)], (), 4)
    after = pairing([*pool(P, 1), *(engine(D, number, ranks=2) for number in range(200))], before, 4)
    assert (len(before), len(after)) == (200, MAX_PEERS // 2)


@pytest.mark.parametrize("racks", [1, 100])
def test_ten_thousand_engines_are_paired_evenly(racks: int) -> None:
    members = [
        engine(role, number, place=("z", f"{number % 10}", f"{number % racks}"))
        for role in Role
        for number in range(5_000)
    ]
    pairs = pairing(members, (), 4)
    assert len(pairs) == 20_000
    assert max(loads(pairs).values()) <= 5
    assert pairing(members, pairs, 4) == pairs
