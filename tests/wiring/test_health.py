# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass
from typing import cast

from tandem_operator.kube.lease import Elector
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.kube.queue import WorkQueue
from tandem_operator.kube.watches import Stream, Watches
from tandem_operator.wiring.health import Health


@dataclass
class State:
    """What the parts say of themselves; also stands for them."""

    active: float = 0.0
    waiting: float = 0.0
    is_leader: bool = True

    def longest_active(self) -> float:
        return self.active

    def longest_waiting(self) -> float:
        return self.waiting


def health(state: State, watches: Watches | None = None) -> Health:
    none = Watches(frozenset(), request_limit=1, echo_limit=1, clock=lambda: 0.0)
    queue, elector = cast("WorkQueue[ResourceKey]", state), cast("Elector", state)
    return Health(watches or none, queue, elector, longest_reconcile=120)


def test_a_process_with_nothing_to_do_is_alive_and_ready() -> None:
    assert health(State()).alive() == []
    assert health(State()).ready() == []


def test_a_worker_that_hangs_is_a_reason_to_restart() -> None:
    assert health(State(active=119)).alive() == []
    assert health(State(active=121)).alive() == ["a worker has been busy with one resource for 121 s"]


def test_resources_that_wait_while_no_worker_works_are_a_reason_to_restart() -> None:
    assert health(State(waiting=121)).alive() == ["a resource has been waiting for 121 s, and no worker is busy"]


def test_a_long_queue_before_busy_workers_is_none() -> None:
    assert health(State(waiting=1000, active=3)).alive() == []


def test_a_standby_does_not_work_and_is_well() -> None:
    assert health(State(waiting=100_000, is_leader=False)).alive() == []


def test_a_dead_watch_is_a_reason_to_restart_and_a_missing_one_not_to_be_ready() -> None:
    time = [0.0]
    watches = Watches(frozenset({Stream("pods", None)}), request_limit=10, echo_limit=10, clock=lambda: time[0])
    checked = health(State(), watches)
    assert checked.ready() == ["not watching pods yet"]
    watches.asked(Stream("pods", None))
    assert checked.ready() == []
    time[0] = 11
    assert checked.alive() == ["the watch of pods was not asked for again for 11 s"]
