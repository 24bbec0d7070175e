# SPDX-License-Identifier: Apache-2.0
"""Which changes a churn may make, and that it makes some of each."""

from collections import Counter

import pytest

from e2e.chaos.topology.changes import Bounds, Change, Chooser, Kind, Seen, possible
from tandem_connector.contract.types import Role

P, D = Role.PREFILL, Role.DECODE
FOUR = Bounds(role=2, total=4)


def a_pod(role: Role, ordinal: int = 0, *, ready: bool = True, ends: bool = False) -> Seen:
    return Seen(f"some-{role}-{ordinal}", role, ready, ends)


ALL = [a_pod(P), a_pod(P, 1), a_pod(D), a_pod(D, 1)]


def kinds(pods: list[Seen], role: Role, bounds: Bounds = FOUR) -> set[Kind]:
    return {change.kind for change in possible(pods, bounds) if change.role is role}


def test_every_engine_may_go_while_another_of_its_role_stays() -> None:
    removed = {change.pod for change in possible(ALL, FOUR) if change.kind is Kind.EVICT}
    assert removed == {pod.name for pod in ALL}
    assert kinds(ALL, D) == kinds(ALL, P) == set(Kind) - {Kind.UP}


def test_the_last_decode_engine_stays_and_prefill_may_be_without_any_for_a_while() -> None:
    pods = [a_pod(P), a_pod(D)]
    assert kinds(pods, D) == {Kind.UP}
    assert kinds(pods, P) == set(Kind) - {Kind.DOWN}


@pytest.mark.parametrize(
    "other", [a_pod(D, 1, ready=False), a_pod(D, 1, ready=False, ends=True), a_pod(D, 1, ends=True)]
)
def test_nothing_is_changed_in_a_role_in_which_one_starts_or_ends(other: Seen) -> None:
    pods = [a_pod(P), a_pod(D), other]
    assert kinds(pods, D) == set()
    assert kinds(pods, P) != set()


def test_there_are_never_more_engines_than_there_is_room_for() -> None:
    pods = [a_pod(P), a_pod(D), a_pod(D, 1)]
    assert Kind.UP in kinds(pods, P)
    assert Kind.UP not in kinds(pods, P, Bounds(role=2, total=3))
    assert Kind.UP not in kinds(ALL, P, Bounds(role=2, total=5))


def test_a_role_grows_by_its_next_pod_and_shrinks_by_its_last() -> None:
    up = [change.pod for change in possible([a_pod(P), a_pod(D)], FOUR) if change.kind is Kind.UP]
    down = [change.pod for change in possible(ALL, FOUR) if change.kind is Kind.DOWN]
    assert up == ["some-prefill-1", "some-decode-1"]
    assert down == ["some-prefill-1", "some-decode-1"]


def test_all_kinds_are_drawn_before_any_comes_again_and_a_seed_draws_the_same() -> None:
    def drawn(seed: int) -> list[Change | None]:
        chooser = Chooser(seed)
        return [chooser.next(ALL, FOUR) for _ in range(20)]

    made = drawn(1)
    assert set(Counter((change.role, change.kind) for change in made if change).values()) == {2}
    assert made == drawn(1) != drawn(2)


def test_nothing_is_drawn_where_nothing_can_be_done() -> None:
    assert Chooser(1).next([a_pod(P, ready=False), a_pod(D, ready=False)], FOUR) is None
