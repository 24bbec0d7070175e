# SPDX-License-Identifier: Apache-2.0
"""One look at one resource: read, plan, apply, report."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog
from pydantic import ValidationError

from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.kube.apply import Applied, Applier, Patched
from tandem_operator.kube.client import Client, Json
from tandem_operator.kube.errors import Conflict, Gone, Requeue
from tandem_operator.kube.keys import ensure_key
from tandem_operator.kube.observe import Observer, ResourceKey, Surroundings, after
from tandem_operator.metrics import Metrics
from tandem_operator.plan.children import key_of
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.target import Target
from tandem_operator.plan.types import Defaults, Observed, Outcome, Plan
from tandem_operator.plan.verification import Report
from tandem_operator.wiring.unreadable import unreadable_status

_log = structlog.get_logger()

_CARRIED_OUT: Final = frozenset({"done", "gone"})
"""How a look ends after which it is known what has become of each write."""


class Planner(Protocol):
    """`tandem_operator.plan.plan.plan`."""

    def __call__(self, observed: Observed, defaults: Defaults) -> Plan:
        """What is to be done; raises InvalidSpec when nothing can be."""


class Reporter(Protocol):
    """`tandem_operator.plan.outcome.outcome`."""

    def __call__(
        self, observed: Observed, defaults: Defaults, now: datetime, problem: InvalidSpec | None = None
    ) -> Outcome:
        """What to report, and when to look again."""


class Conversing(Protocol):
    """`tandem_operator.wiring.conversing.Conversations`."""

    def reports(self, key: ResourceKey) -> tuple[Report, ...]:
        """What was shown of a resource, and isn't written yet."""
        ...

    def written(self, key: ResourceKey, reports: Sequence[Report]) -> None:
        """These need not be told again."""
        ...

    def follow(self, key: ResourceKey, targets: Iterable[Target]) -> None:
        """Converse with these from now on."""
        ...

    def forget(self, key: ResourceKey) -> None:
        """The resource is gone."""
        ...


class Reconciler:
    """Reconciles resources, any number at a time, each by one caller at a time.

    Args:
        client: the connection.
        observer: reads.
        applier: writes.
        conversations: shows that KV moves.
        metrics: gets durations and failures.
        defaults: what the installation decides.
        plan: decides what is wanted.
        outcome: decides what is reported.
        on_gone: is told of a resource that no longer exists.
        resync: seconds until a resource is looked at again at the latest.
        timeout: seconds that one look may take.
        now: the time of day.
    """

    def __init__(
        self,
        client: Client,
        observer: Observer,
        applier: Applier,
        conversations: Conversing,
        metrics: Metrics,
        *,
        defaults: Defaults,
        plan: Planner,
        outcome: Reporter,
        on_gone: Callable[[ResourceKey], None],
        resync: float,
        timeout: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._observer = observer
        self._applier = applier
        self._conversations = conversations
        self._metrics = metrics
        self._defaults = defaults
        self._plan = plan
        self._outcome = outcome
        self._on_gone = on_gone
        self._resync = resync
        self._timeout = timeout
        self._now = now
        self._uids: dict[ResourceKey, str] = {}

    async def __call__(self, key: ResourceKey) -> float | None:
        """Reconcile; the seconds until it should be done again, None when the resource is gone."""
        began = time.monotonic()
        ended = "failed"
        with structlog.contextvars.bound_contextvars(cr=str(key)):
            try:
                async with asyncio.timeout(self._timeout):
                    again = await self._reconcile(key)
                ended = "gone" if again is None else "done"
            except Requeue as request:
                _log.info("requeued", reason=str(request), again_seconds=request.after.total_seconds())
                ended = "requeued"
                again = request.after.total_seconds()
            except Exception as error:
                self._metrics.failures.labels(type(error).__name__).inc()
                raise
            finally:
                if ended not in _CARRIED_OUT:
                    self._observer.children.forget(key)
                self._metrics.reconcile_duration.labels(ended).observe(time.monotonic() - began)
        return again

    async def _reconcile(self, key: ResourceKey) -> float | None:
        stored = await self._observer.resource(key)
        self._note_uid(key, stored)
        if stored is None:
            self._on_gone(key)
            return None
        try:
            resource = DisaggregatedInference.model_validate(stored)
        except ValidationError as error:
            await self._report_unreadable(stored, error)
            return self._next_resync()
        surroundings = await self._observer.surroundings(resource, self._now())
        reports = self._conversations.reports(key)
        surroundings = replace(surroundings, observed=replace(surroundings.observed, reports=reports))
        observed, problem = surroundings.observed, None
        try:
            plan = self._plan(observed, self._defaults)
        except InvalidSpec as error:
            problem = error
        else:
            observed = await self._carry_out(key, plan, surroundings)
            self._conversations.written(key, reports)
        outcome = self._outcome(observed, self._defaults, self._now(), problem)
        self._conversations.follow(key, outcome.targets)
        self._metrics.of_resources.saw(key.namespace, key.name, outcome.status, self._now().timestamp())
        try:
            if await self._applier.status(stored, outcome.status):
                _log.info("status written", generation=resource.metadata.generation)
        except (Gone, Conflict):
            # Deleted or replaced while we worked: its event brings the key back.
            return self._next_resync()
        await self._applier.events(stored, outcome.events)
        await self._report_to_scalers(key, observed, outcome)
        resync = self._next_resync()
        return resync if outcome.again is None else min(resync, outcome.again.total_seconds())

    async def _carry_out(self, key: ResourceKey, plan: Plan, surroundings: Surroundings) -> Observed:
        """Apply the plan; what is observed after that. In the plan's order: children first, then pods, which may need them."""
        observed, live = surroundings.observed, surroundings.live
        owner = observed.resource.metadata
        missing, refused = await ensure_key(self._client, owner, plan.key) if plan.key else (None, ())
        applied: Applied = await self._applier.children(owner, plan.objects, live, plan.new)
        await self._applier.delete(owner, plan.obsolete, live)
        self._observer.children.changed(key, applied.live, plan.obsolete)
        pods = {pod["metadata"]["name"]: pod for pod in observed.pods}
        patched: Patched = await self._applier.pods(owner, plan.pod_patches, pods)
        await self._applier.evict(owner, plan.evictions)
        changed = after(observed, applied, patched, plan.obsolete)
        return replace(
            changed,
            refusals=(*refused, *changed.refusals),
            missing_key=missing,
        )

    async def _report_to_scalers(self, key: ResourceKey, observed: Observed, outcome: Outcome) -> None:
        for role, status in outcome.scalers.items():
            # One that was deleted or replaced while we worked brings the key back by its event.
            with contextlib.suppress(Gone, Conflict):
                if written := await self._applier.status(observed.scalers[role], status):
                    self._observer.children.changed(key, {key_of(written): written}, ())

    async def _report_unreadable(self, stored: Json, error: ValidationError) -> None:
        status, events = unreadable_status(stored, error, self._now())
        _log.warning("resource can't be read", error=str(error))
        metadata = stored["metadata"]
        self._metrics.of_resources.saw_unreadable(
            metadata["namespace"], metadata["name"], status["conditions"], self._now().timestamp()
        )
        try:
            written = await self._applier.raw_status(stored, status)
        except (Gone, Conflict):
            return
        if written:
            await self._applier.events(stored, events)

    def _note_uid(self, key: ResourceKey, stored: Json | None) -> None:
        """Forget what is remembered of a former resource of this name."""
        uid = stored["metadata"]["uid"] if stored else None
        former = self._uids.get(key)
        if former is not None and former != uid:
            self._applier.forget(former)
            self._observer.forget(key)
            self._conversations.forget(key)
        if uid is None:
            self._metrics.of_resources.forget(key.namespace, key.name)
            self._uids.pop(key, None)
            self._observer.forget(key)
            self._conversations.forget(key)
        else:
            self._uids[key] = uid

    def _next_resync(self) -> float:
        # Spread, so that resources that were found together at start don't come back together for ever.
        return self._resync * random.uniform(0.5, 1.0)  # noqa: S311 -- jitter, not a secret
