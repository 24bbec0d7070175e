# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import timedelta
from typing import Any, cast

import pytest

from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Conflict, Requeue
from tandem_operator.kube.lease import Elector, Terms
from tandem_operator.kube.tenure import Tenure
from tandem_operator.metrics import Metrics

pytestmark = pytest.mark.looptime


class LeaseServer:
    """What a Lease needs of an API server: optimistic locking, and being away."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.is_away = False
        self.hangs = False
        self._version = 0

    async def get(self, *_: Any, **__: Any) -> dict[str, Any] | None:
        await self._answer()
        return deepcopy(self.lease)

    async def create(self, _: Any, __: str, manifest: dict[str, Any], **___: Any) -> dict[str, Any]:
        await self._answer()
        if self.lease is not None:
            raise Conflict("exists")
        return self._store(manifest)

    async def replace(self, _: Any, manifest: dict[str, Any], **__: Any) -> dict[str, Any]:
        await self._answer()
        assert self.lease is not None
        if manifest["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("modified")
        return self._store(manifest)

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""

    async def _answer(self) -> None:
        await asyncio.sleep(0.01)
        if self.hangs:
            await asyncio.sleep(1000)
        if self.is_away:
            raise Requeue("connection refused", timedelta(seconds=5))

    def _store(self, manifest: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.lease = deepcopy(manifest)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return self.lease


class Replica:
    """A candidate, with the times at which it worked."""

    def __init__(self, server: LeaseServer, name: str, metrics: Metrics, clock: Any = None) -> None:
        self.spans: list[list[float]] = []
        self.tenure = Tenure(clock)
        self.elector = Elector(cast("Client", server), "ns", "lease", name, metrics, tenure=self.tenure, clock=clock)
        self.task = asyncio.create_task(self.elector.run(self._work))

    async def _work(self) -> None:
        span = [asyncio.get_running_loop().time()]
        self.spans.append(span)
        try:
            await asyncio.Event().wait()
        finally:
            span.append(asyncio.get_running_loop().time())

    @property
    def works(self) -> bool:
        return bool(self.spans) and len(self.spans[-1]) == 1

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@asynccontextmanager
async def running(*replicas: Replica) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for replica in replicas:
            await replica.stop()


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


async def test_one_of_two_replicas_works(server: LeaseServer, metrics: Metrics) -> None:
    first = Replica(server, "first", metrics)
    await asyncio.sleep(0.5)
    second = Replica(server, "second", metrics)
    async with running(first, second):
        await asyncio.sleep(300)
        assert (first.works, second.works, server.holder) == (True, False, "first")
        assert second.spans == []


async def test_two_replicas_that_start_together_do_not_both_lead(server: LeaseServer, metrics: Metrics) -> None:
    replicas = [Replica(server, name, metrics) for name in ("first", "second", "third")]
    async with running(*replicas):
        await asyncio.sleep(60)
        assert sum(replica.works for replica in replicas) == 1


async def test_a_standby_takes_over_after_the_duration_when_the_leader_vanishes(
    server: LeaseServer, metrics: Metrics
) -> None:
    first = Replica(server, "first", metrics)
    await asyncio.sleep(1)
    second = Replica(server, "second", metrics)
    async with running(second):
        await asyncio.sleep(9)
        lease = deepcopy(server.lease)
        await first.stop()
        server.lease = lease  # killed, so nothing was released
        await asyncio.sleep(30)
        assert second.works
        assert 22 <= second.spans[0][0] <= 29, (
            "15 s after the last renewal, at most 2.4 s of retry and one renewal late"
        )
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_ends_hands_over_within_one_retry(server: LeaseServer, metrics: Metrics) -> None:
    first = Replica(server, "first", metrics)
    await asyncio.sleep(1)
    second = Replica(server, "second", metrics)
    async with running(second):
        await asyncio.sleep(9)
        await first.stop()
        ended = asyncio.get_running_loop().time()
        await asyncio.sleep(5)
        assert second.works
        assert second.spans[0][0] - ended <= 2.5
        assert first.spans[0][1] <= second.spans[0][0]


@pytest.mark.parametrize("trouble", ["is_away", "hangs"])
async def test_a_leader_that_cannot_renew_stops_before_another_may_start(
    server: LeaseServer, metrics: Metrics, trouble: str
) -> None:
    first = Replica(server, "first", metrics)
    async with running(first):
        await asyncio.sleep(10)
        setattr(server, trouble, True)
        await asyncio.sleep(30)
        _, ended = first.spans[0]
        assert not first.works
        assert 18 <= ended <= 20.2, "10 s after the last renewal that succeeded"
        setattr(server, trouble, False)


@pytest.mark.parametrize("trouble", ["is_away", "hangs"])
async def test_a_leader_may_write_only_until_its_last_renewal_must_have_been_followed_by_another(
    server: LeaseServer, metrics: Metrics, trouble: str
) -> None:
    first = Replica(server, "first", metrics)
    async with running(first):
        await asyncio.sleep(10)
        setattr(server, trouble, True)
        held = []
        for _ in range(40):
            held.append(first.tenure.holds())
            await asyncio.sleep(0.5)
        assert held == sorted(held, reverse=True)
        assert 16 <= held.count(True) <= 21, "10 s after the last renewal that succeeded"
        setattr(server, trouble, False)


async def test_a_process_that_was_stopped_may_not_write_before_it_has_noticed(
    server: LeaseServer, metrics: Metrics
) -> None:
    stopped_for = 0.0
    first = Replica(server, "first", metrics, clock=lambda: asyncio.get_running_loop().time() + stopped_for)
    async with running(first):
        await asyncio.sleep(10)
        assert first.tenure.holds()
        stopped_for = 60.0
        assert first.works, "nobody has told it yet"
        assert not first.tenure.holds()


async def test_a_leader_that_sees_another_may_not_write_any_more(server: LeaseServer, metrics: Metrics) -> None:
    first = Replica(server, "first", metrics)
    async with running(first):
        await asyncio.sleep(10)
        assert server.lease is not None
        server.lease["spec"]["holderIdentity"] = "usurper"
        await asyncio.sleep(2.5)
        assert not first.tenure.holds()


async def test_a_leader_that_lost_the_lease_leads_again_when_it_is_free(server: LeaseServer, metrics: Metrics) -> None:
    first = Replica(server, "first", metrics)
    async with running(first):
        await asyncio.sleep(10)
        server.is_away = True
        await asyncio.sleep(30)
        server.is_away = False
        await asyncio.sleep(10)
        assert first.works
        assert len(first.spans) == 2


async def test_a_leader_stops_at_once_when_another_holds_the_lease(server: LeaseServer, metrics: Metrics) -> None:
    first = Replica(server, "first", metrics)
    async with running(first):
        await asyncio.sleep(10)
        assert server.lease is not None
        server.lease["spec"]["holderIdentity"] = "usurper"
        await asyncio.sleep(2.5)
        assert not first.works
        assert server.holder == "usurper", "what another holds is not released"


async def test_clocks_of_other_machines_do_not_matter(server: LeaseServer, metrics: Metrics) -> None:
    """The holder's clock is a day behind: its renewals count from when they are seen."""
    first = Replica(server, "first", metrics)
    await asyncio.sleep(1)
    assert server.lease is not None
    second = Replica(server, "second", metrics)
    async with running(first, second):
        for minute in range(60):
            server.lease["spec"]["renewTime"] = f"2001-01-01T00:{minute:02}:00.000000Z"
            await asyncio.sleep(5)
        assert (first.works, second.works) == (True, False)


async def test_work_that_fails_ends_the_candidate_and_frees_the_lease(server: LeaseServer, metrics: Metrics) -> None:
    async def work() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("broken")

    elector = Elector(cast("Client", server), "ns", "lease", "first", metrics, tenure=Tenure())
    with pytest.raises(RuntimeError, match="broken"):
        await elector.run(work)
    assert server.holder == ""
    assert metrics.registry.get_sample_value("tandem_leader") == 0


async def test_a_candidate_whose_tasks_all_end_at_once_still_frees_the_lease(
    server: LeaseServer, metrics: Metrics
) -> None:
    """kopf, when it fails, cancels all tasks that it finds, and the process then cancels the candidate."""
    first = Replica(server, "first", metrics)
    await asyncio.sleep(10)
    for task in asyncio.all_tasks() - {asyncio.current_task(), first.task}:
        task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await first.stop()
    assert server.holder == ""


def test_times_that_would_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="retry < renew deadline < duration"):
        Terms(duration=10, renew_deadline=10, retry=2)
