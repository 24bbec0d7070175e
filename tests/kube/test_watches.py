# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from tandem_operator.kube.watches import Stream, Watches

PODS = Stream("pods", None)
NODES = Stream("nodes", None)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watches(clock: Clock) -> Watches:
    return Watches(frozenset({PODS, NODES}), request_limit=300, echo_limit=120, clock=clock)


def metadata(version: int, uid: str = "u1", namespace: str = "models") -> dict[str, Any]:
    return {"uid": uid, "namespace": namespace, "resourceVersion": str(version)}


def test_watches_that_were_not_asked_for_yet_are_missing(watches: Watches) -> None:
    assert watches.missing() == [NODES, PODS]
    watches.asked(PODS)
    assert watches.missing() == [NODES]


def test_a_quiet_watch_lives_as_long_as_it_is_asked_for_again(watches: Watches, clock: Clock) -> None:
    for _ in range(10):
        watches.asked(PODS)
        watches.asked(NODES)
        clock.time += 240
        assert watches.dead() == []


def test_a_watch_that_is_not_asked_for_again_is_dead(watches: Watches, clock: Clock) -> None:
    watches.asked(PODS)
    clock.time += 200
    watches.asked(NODES)
    clock.time += 101
    assert watches.dead() == ["the watch of pods was not asked for again for 301 s"]


def test_a_write_that_does_not_come_back_shows_a_dead_watch(watches: Watches, clock: Clock) -> None:
    watches.heard("pods", metadata(5))
    watches.wrote("pods", metadata(6))
    clock.time += 121
    assert watches.dead() == ["the watch of pods did not tell of a write 121 s ago"]
    watches.heard("pods", metadata(6))
    assert watches.dead() == []


@pytest.mark.parametrize("answered", [5, 6, 7])
def test_nothing_is_awaited_that_the_watch_told_of_before(watches: Watches, clock: Clock, answered: int) -> None:
    """A write that changed nothing answers an old version, and an event may be faster than the answer to its write."""
    watches.heard("pods", metadata(5))
    watches.heard("pods", metadata(7, uid="u2"))
    watches.wrote("pods", metadata(answered))
    clock.time += 1000
    assert watches.dead() == []


def test_the_first_of_several_unanswered_writes_counts(watches: Watches, clock: Clock) -> None:
    watches.wrote("pods", metadata(6))
    clock.time += 100
    watches.wrote("pods", metadata(7))
    clock.time += 21
    assert len(watches.dead()) == 1


def test_a_write_to_a_kind_without_a_watch_is_not_awaited(watches: Watches, clock: Clock) -> None:
    watches.wrote("services", metadata(6))
    clock.time += 1000
    assert watches.dead() == []


def test_the_first_list_of_a_watch_is_no_new_start_and_each_later_one_is(watches: Watches) -> None:
    assert [watches.listed(PODS) for _ in range(3)] == [False, True, True]
    assert not watches.listed(NODES), "another one"


def test_what_is_no_watch_that_there_has_to_be_is_no_new_start(watches: Watches) -> None:
    assert [watches.listed(Stream("v1", None)) for _ in range(2)] == [False, False]


def test_with_a_list_of_namespaces_each_has_its_own_watch(clock: Clock) -> None:
    ours, theirs = Stream("pods", "ours"), Stream("pods", "theirs")
    watches = Watches(frozenset({ours, theirs, NODES}), request_limit=300, echo_limit=120, clock=clock)
    watches.wrote("pods", metadata(6, namespace="ours"))
    watches.heard("pods", metadata(7, namespace="theirs"))
    clock.time += 121
    assert watches.dead() == ["the watch of pods in ours did not tell of a write 121 s ago"]
