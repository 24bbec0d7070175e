# SPDX-License-Identifier: Apache-2.0
"""How a sleeping engine is woken: by its ranks and threads, and by the clock."""

import multiprocessing
import secrets
import threading
import time

import pytest

from tandem_connector.exchange.types import EngineId, Index, JobId, WantId
from tandem_connector.vllm.alarm import Alarm
from tandem_connector.vllm.doorbell import BellPush, Doorbell, Ring
from tandem_connector.vllm.reports import JobEnded, Outcome, Received
from tandem_connector.vllm.worker import Ringing

LONG = 30.0
"""Seconds: longer than any wait here takes unless it fails."""


@pytest.fixture
def engine() -> EngineId:
    return EngineId(f"engine-{secrets.token_hex(8)}")


def test_a_ring_before_the_wait_ends_it_at_once(engine: EngineId) -> None:
    bell = Doorbell(engine)
    bell.ring(Ring.NEWS)
    assert bell.wait(LONG) == {Ring.NEWS}
    bell.close()


def test_it_is_known_who_rang_and_rings_are_not_kept_for_later_waits(engine: EngineId) -> None:
    bell = Doorbell(engine)
    for who in (Ring.NEWS, Ring.INPUT, Ring.NEWS):
        bell.ring(who)
    assert bell.wait(LONG) == {Ring.NEWS, Ring.INPUT}
    assert bell.wait(0.0) == set()
    bell.close()


def _ring(engine: EngineId) -> None:
    BellPush(engine).ring(Ring.RANK)


def test_a_rank_in_another_process_rings(engine: EngineId) -> None:
    bell = Doorbell(engine)
    process = multiprocessing.get_context("spawn").Process(target=_ring, args=(engine,))
    process.start()
    assert bell.wait(LONG) == {Ring.RANK}
    process.join()
    bell.close()


def test_ringing_where_nobody_listens_and_without_end_is_no_error(engine: EngineId) -> None:
    BellPush(engine).ring(Ring.RANK)
    bell = Doorbell(engine)
    for _ in range(10_000):
        bell.ring(Ring.NEWS)
    bell.close()


def test_a_rank_rings_for_the_last_block_of_a_want_and_for_all_else(engine: EngineId) -> None:
    bell, ringing = Doorbell(engine), Ringing(engine, clock=lambda: 1.0)
    want, job = WantId(1), JobEnded(JobId(1), (), Outcome.WRITTEN)
    ringing.expect(want, 3)
    ringing.reported([Received(want, (Index(0), Index(1)))])
    assert bell.wait(0.0) == set()
    ringing.reported([Received(want, (Index(2),))])
    assert bell.wait(0.0) == {Ring.RANK}
    ringing.reported([job])
    assert bell.wait(0.0) == {Ring.RANK}
    ringing.reported([])
    assert bell.wait(0.0) == {Ring.RANK}
    bell.close()


def test_a_rank_rings_for_the_last_block_that_can_still_come(engine: EngineId) -> None:
    bell, ringing = Doorbell(engine), Ringing(engine, clock=lambda: 1.0)
    want = WantId(1)
    ringing.expect(want, 3)
    ringing.reported([Received(want, (Index(0),))])
    ringing.expect_fewer(want, 1)
    assert bell.wait(0.0) == set()
    ringing.reported([Received(want, (Index(2),))])
    assert bell.wait(0.0) == {Ring.RANK}
    bell.close()


def test_a_rank_shows_now_and_then_that_blocks_come(engine: EngineId) -> None:
    now = 1.0
    bell, ringing = Doorbell(engine), Ringing(engine, clock=lambda: now)
    ringing.expect(WantId(1), 100)
    ringing.reported([Received(WantId(1), (Index(0),))])
    assert bell.wait(0.0) == set()
    now = 10.0
    ringing.reported([Received(WantId(1), (Index(1),))])
    assert bell.wait(0.0) == {Ring.RANK}
    bell.close()


def test_an_engines_id_is_taken_once_on_a_machine(engine: EngineId) -> None:
    bell = Doorbell(engine)
    with pytest.raises(OSError, match="in use"):
        Doorbell(engine)
    bell.close()


def test_the_alarm_rings_once_at_its_time() -> None:
    rung = threading.Semaphore(0)
    alarm = Alarm(rung.release)
    alarm.set(time.monotonic())
    assert rung.acquire(timeout=LONG)
    assert not rung.acquire(blocking=False)
    alarm.close()


def test_an_earlier_time_takes_the_place_of_a_later_one() -> None:
    rung = threading.Semaphore(0)
    alarm = Alarm(rung.release)
    alarm.set(time.monotonic() + 2 * LONG)
    alarm.set(time.monotonic())
    assert rung.acquire(timeout=LONG)
    alarm.close()


def test_an_alarm_that_was_taken_back_does_not_ring() -> None:
    rung = threading.Semaphore(0)
    alarm = Alarm(rung.release)
    alarm.set(time.monotonic() + LONG)
    alarm.set(None)
    alarm.close()
    assert not rung.acquire(blocking=False)
