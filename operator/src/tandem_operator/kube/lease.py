# SPDX-License-Identifier: Apache-2.0
"""Leader election with a Lease: of several replicas, one works.

The same rules as client-go's `leaderelection` package: a holder renews every `retry` seconds and gives up by itself when
it could not renew for `renew_deadline`; another takes over when it has seen no renewal for `duration`. Times are compared
on the own monotonic clock only: what counts is when *this* process saw the Lease change, never what another's clock wrote
into it.

Even so, a process that is stopped and continued may believe to lead for a moment. It writes nothing in that time
(`kube/tenure.py`); what was on its way does no harm, because both would apply the same plan (see
docs/design/005-one-apply-per-reconcile.md).
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

import structlog

from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Conflict, KubeError
from tandem_operator.kube.kinds import LEASE
from tandem_operator.kube.tenure import Tenure
from tandem_operator.metrics import Metrics

_log = structlog.get_logger()


@dataclass(frozen=True)
class Terms:
    """Seconds. `retry < renew_deadline < duration`; the defaults are Kubernetes' own."""

    duration: float = 15.0
    """A Lease that was not renewed for this long may be taken over."""
    renew_deadline: float = 10.0
    """A holder that could not renew for this long stops working."""
    retry: float = 2.0
    """Between two looks at the Lease."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.duration:
            raise ValueError("the Lease's times must satisfy 0 < retry < renew deadline < duration")


class Elector:
    """One candidate.

    Args:
        client: the connection.
        namespace: of the Lease.
        name: of the Lease.
        identity: tells this process from all others.
        metrics: gets whether this replica leads.
        tenure: gets until when it may write.
        terms: the times.
        clock: seconds, monotonic; the event loop's unless given.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        metrics: Metrics,
        *,
        tenure: Tenure,
        terms: Terms | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._metrics = metrics
        self._tenure = tenure
        self._terms = terms or Terms()
        self._clock = clock or asyncio.get_running_loop().time
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self.is_leader = False

    async def run(self, work: Callable[[], Awaitable[object]]) -> NoReturn:
        """Have `work` running whenever, and only while, this process leads. Runs until cancelled, or until `work` fails.

        When leadership is lost, `work` is cancelled at once. When this is cancelled, or `work` fails, the Lease is released, so that
        another replica takes over without waiting for it to expire.
        """
        while True:
            renewed_at = await self._acquire()
            self._renewed(renewed_at)
            self._became(leader=True)
            working = asyncio.ensure_future(work())
            keeping = asyncio.ensure_future(self._keep(renewed_at))
            try:
                await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                lost = keeping.done() and not keeping.cancelled()
                await _to_its_end(self._step_down(working, keeping, release=not lost))
            if not working.cancelled():
                working.result()
            if not lost:
                raise RuntimeError("the work of the leader ended, though nobody asked for it")
            keeping.result()

    async def _step_down(self, *tasks: asyncio.Future[Any], release: bool) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tenure.end()
        self._became(leader=False)
        if release:
            await self._release()

    async def _acquire(self) -> float:
        """Wait until this process holds the Lease; the time at which it asked for it."""
        while True:
            asked_at = self._clock()
            if await self._try():
                return asked_at
            # Jitter as in client-go, against candidates in step.
            await asyncio.sleep(self._terms.retry * random.uniform(1, 1.2))  # noqa: S311 -- jitter, not a secret

    async def _keep(self, renewed_at: float) -> None:
        """Renew; return when the Lease is lost, or can't be renewed in time."""
        while True:
            await asyncio.sleep(min(self._terms.retry, max(0.0, self._remaining(renewed_at))))
            asked_at = self._clock()
            remaining = self._remaining(renewed_at)
            try:
                async with asyncio.timeout(remaining):
                    if await self._try():
                        renewed_at = asked_at
                        self._renewed(renewed_at)
            except TimeoutError:
                pass
            if self._holder() not in ("", self._identity):
                self._tenure.end()
                _log.warning("lease taken by another", holder=self._holder())
                return
            if self._remaining(renewed_at) <= 0:
                _log.warning("lease not renewed in time", deadline_seconds=self._terms.renew_deadline)
                return

    def _renewed(self, at: float) -> None:
        self._tenure.prolong(at + self._terms.renew_deadline)

    def _remaining(self, renewed_at: float) -> float:
        return renewed_at + self._terms.renew_deadline - self._clock()

    async def _try(self) -> bool:
        """One attempt to get or keep the Lease. False when another holds it or the API server does not answer."""
        try:
            lease = await self._client.get(LEASE, self._namespace, self._name, patient=False)
            if lease is None:
                fresh = self._claim({}, transitions=0)
                await self._client.create(LEASE, self._namespace, fresh, patient=False)
                self._note(fresh["spec"])
                return True
            spec = lease.get("spec") or {}
            self._note(spec)
            holder = spec.get("holderIdentity") or ""
            expires_at = self._seen_at + float(spec.get("leaseDurationSeconds") or 0)
            if holder not in ("", self._identity) and self._clock() < expires_at:
                return False
            transitions = int(spec.get("leaseTransitions") or 0) + (holder != self._identity)
            claim = self._claim(lease, transitions=transitions)
            await self._client.replace(LEASE, claim, patient=False)
            self._note(claim["spec"])
        except Conflict:
            return False  # another was faster
        except KubeError as error:
            _log.warning("lease not reached", error=str(error))
            return False
        return True

    def _note(self, spec: dict[str, Any]) -> None:
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("acquireTime"))
        if record != self._seen:
            self._seen, self._seen_at = record, self._clock()

    def _holder(self) -> str:
        return (self._seen[0] if self._seen else "") or ""

    def _claim(self, lease: dict[str, Any], *, transitions: int) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = lease.get("spec") or {}
        mine = old.get("holderIdentity") == self._identity
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            # The resourceVersion in the old metadata is what makes one of two candidates lose.
            "metadata": lease.get("metadata") or {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._terms.duration)),
                "acquireTime": old.get("acquireTime") if mine else now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }

    async def _release(self) -> None:
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._terms.retry):
                lease = await self._client.get(LEASE, self._namespace, self._name, patient=False)
                if lease is None or lease["spec"].get("holderIdentity") != self._identity:
                    return
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._client.replace(LEASE, {**lease, "spec": spec}, patient=False)
                _log.info("lease released")

    def _became(self, *, leader: bool) -> None:
        if leader != self.is_leader:
            _log.info("leading" if leader else "not leading", identity=self._identity)
        self.is_leader = leader
        self._metrics.leader.set(leader)


async def _to_its_end(action: Coroutine[None, None, None]) -> None:
    """Await the action, which is short, also when this task is cancelled meanwhile."""
    task = asyncio.create_task(action)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
