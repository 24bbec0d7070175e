# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise

import pytest

from tandem_operator.kube.queue import WorkQueue
from tandem_operator.metrics import Metrics

pytestmark = pytest.mark.looptime

Process = Callable[[str], Awaitable[float | None]]


@asynccontextmanager
async def working(queue: WorkQueue[str], process: Process, workers: int = 1) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(queue.work(process)) for _ in range(workers)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_key_that_waits_already_is_worked_on_once(metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    worked: list[str] = []

    async def process(key: str) -> None:
        worked.append(key)

    for key in ("a", "b", "a", "a"):
        queue.add(key)
    async with working(queue, process):
        await asyncio.sleep(1)
    assert worked == ["a", "b"]


async def test_a_key_added_while_it_is_worked_on_is_worked_on_again_afterwards_and_never_twice_at_once(
    metrics: Metrics,
) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    spans: list[tuple[float, float]] = []

    async def process(key: str) -> None:
        began = now()
        await asyncio.sleep(10)
        spans.append((began, now()))

    queue.add("a")
    async with working(queue, process, workers=3):
        for _ in range(5):
            await asyncio.sleep(1)
            queue.add("a")
        await asyncio.sleep(30)
    assert spans == [(0, 10), (10, 20)]


@pytest.mark.parametrize(("reasons", "times"), [((False,), 1), ((True,), 2), ((False, None), 2), ((None, False), 2)])
async def test_a_key_whose_reason_is_gone_when_its_worker_ends_is_not_worked_on_again(
    metrics: Metrics, reasons: tuple[bool | None, ...], times: int
) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    worked: list[str] = []

    async def process(key: str) -> None:
        worked.append(key)
        await asyncio.sleep(10)

    queue.add("a")
    async with working(queue, process):
        await asyncio.sleep(1)
        for reason in reasons:
            queue.add("a", still=None if reason is None else partial(bool, reason))
        await asyncio.sleep(30)
    assert len(worked) == times


async def test_no_more_keys_are_worked_on_at_once_than_there_are_workers(metrics: Metrics) -> None:
    queue: WorkQueue[int] = WorkQueue(metrics)
    active: set[int] = set()
    most = 0

    async def process(key: int) -> None:
        nonlocal most
        active.add(key)
        most = max(most, len(active))
        await asyncio.sleep(1)
        active.remove(key)

    for key in range(10):
        queue.add(key)
    workers = [asyncio.create_task(queue.work(process)) for _ in range(3)]
    await asyncio.sleep(20)
    assert (most, len(queue)) == (3, 0)
    for worker in workers:
        worker.cancel()


async def test_failures_are_repeated_with_doubled_delays_up_to_the_longest_and_start_over_after_a_success(
    metrics: Metrics,
) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics, first_delay=1, longest_delay=10)
    times: list[float] = []

    async def process(key: str) -> None:
        times.append(now())
        if len(times) != 8:
            raise RuntimeError("no luck")

    queue.add("a")
    async with working(queue, process):
        await asyncio.sleep(100)
        assert len(times) == 8
        queue.add("a")
        await asyncio.sleep(1.1)
    waits = [later - earlier for earlier, later in pairwise(times)]
    for wait, full in zip(waits, (1, 2, 4, 8, 10, 10, 10), strict=False):
        assert full / 2 <= wait <= full
    assert waits[8] <= 1, "the first delay again"


async def test_the_result_is_the_time_until_the_next_look_and_a_change_comes_first(metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    times: list[float] = []

    async def process(key: str) -> float:
        times.append(now())
        return 60

    queue.add("a")
    async with working(queue, process):
        await asyncio.sleep(20)
        queue.add("a")
        await asyncio.sleep(100)
    assert times == [0, 20, 80]


async def test_the_earliest_of_several_planned_looks_counts(metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    times: list[float] = []

    async def process(key: str) -> None:
        times.append(now())

    for delay in (30, 10, 50):
        queue.add_after("a", delay)
    async with working(queue, process):
        await asyncio.sleep(100)
    assert times == [10]


@pytest.mark.parametrize(("is_still_so", "worked"), [(True, [0, 0.6, 1.6]), (False, [0, 1.0])])
async def test_a_look_for_a_reason_that_may_pass_is_made_if_it_has_not_and_hides_no_planned_one(
    metrics: Metrics, is_still_so: bool, worked: list[float]
) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    looked: list[float] = []

    async def process(_: str) -> float:
        looked.append(now())
        return 1.0

    async with working(queue, process):
        queue.add("a")
        await asyncio.sleep(0.1)
        for _ in range(3):
            queue.add_if_still("a", 0.5, lambda: is_still_so)
        await asyncio.sleep(1.8)
    assert looked == pytest.approx(worked)


async def test_a_look_for_a_reason_that_may_pass_starts_to_wait_anew_after_any_other_look(metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    looked: list[float] = []

    async def process(_: str) -> None:
        looked.append(now())

    async with working(queue, process):
        for _ in range(4):
            queue.add("a")
            await asyncio.sleep(0.1)
            queue.add_if_still("a", 0.5, lambda: True)
            await asyncio.sleep(0.3)
        await asyncio.sleep(10)
    assert looked == pytest.approx([0, 0.4, 0.8, 1.2, 1.8])


async def test_a_key_whose_worker_is_cancelled_is_not_lost(metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    finished: list[str] = []

    async def process(key: str) -> None:
        await asyncio.sleep(10)
        finished.append(key)

    queue.add("a")
    async with working(queue, process):
        await asyncio.sleep(5)
    assert finished == []
    async with working(queue, process):
        await asyncio.sleep(11)
    assert finished == ["a"]


async def test_a_forgotten_key_is_not_looked_at_again(metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    worked: list[str] = []

    async def process(key: str) -> None:
        worked.append(key)

    queue.add_after("a", 10)
    queue.add_if_still("a", 10, lambda: True)
    queue.forget("a")
    async with working(queue, process):
        await asyncio.sleep(100)
    assert worked == []


async def test_depth_and_latency_are_measured(metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue(metrics)
    depths: list[float | None] = []

    async def process(key: str) -> None:
        depths.append(metrics.registry.get_sample_value("tandem_queue_depth"))
        await asyncio.sleep(4)

    queue.add("a")
    queue.add("b")
    async with working(queue, process):
        await asyncio.sleep(3)
        assert (queue.longest_active(), queue.longest_waiting()) == (3, 3)
        await asyncio.sleep(10)
    assert depths == [1, 0]
    assert metrics.registry.get_sample_value("tandem_queue_latency_seconds_sum") == 4
    assert (queue.longest_active(), queue.longest_waiting()) == (0, 0)
