# SPDX-License-Identifier: Apache-2.0
"""Holds the conversations by which pairs show that KV moves: few at one time, each decode engine at its own pace.

What was shown waits here until the resource is reconciled, which writes it to the pods. This decides nothing:
`plan/conversation.py` says what is asked and what answers mean, `plan/targets.py` whom and when.
"""

import asyncio
import random
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from tandem_connector.contract.types import EngineId, pod_of
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.metrics import Metrics
from tandem_operator.plan.conversation import (
    LAST_ANSWER,
    Answer,
    Failed,
    Results,
    Standing,
    goes_on,
    judge,
    prompt,
    request,
)
from tandem_operator.plan.target import Place, Target, is_news, is_well, next_after, report_of
from tandem_operator.plan.verification import Fabric, Report
from tandem_operator.wiring.engine_client import Said

_log = structlog.get_logger()

LANDING: Final = 1.0
"""Seconds between the two turns, in which decode's blocks come back to prefill."""
_FIRST_AFTER: Final = 2.0
"""Seconds from an engine's being ready to its first conversation: engines read their peer table a moment after it was written."""

_MOST_WAITING: Final = 1000
"""Reports of one resource that wait to be written. While it can't be reconciled, the oldest are lost."""


class Engines(Protocol):
    """`EngineClient`."""

    async def complete(self, place: Place, body: dict[str, object], rank: int | None = None) -> Answer | Failed:
        """The answer to a completion."""
        ...

    async def said(self, place: Place) -> Said | None:
        """What an engine says of itself."""
        ...


@dataclass
class _Known:
    """A decode engine, while its process runs."""

    target: Target
    tries: int = 0
    task: asyncio.Task[None] | None = None
    pause: asyncio.Future[None] | None = None
    """While no conversation is held."""


class Conversations:
    """Those of all resources.

    Args:
        engines: where they are held.
        metrics: counts them.
        at_once: how many may be held at one time.
        on_report: is told of a resource of which something was shown.
        sleep: waits.
    """

    def __init__(
        self,
        engines: Engines,
        metrics: Metrics,
        *,
        at_once: int,
        on_report: Callable[[ResourceKey], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engines = engines
        self._metrics = metrics
        self._room = asyncio.Semaphore(at_once)
        self._on_report = on_report
        self._sleep = sleep
        self._known: dict[ResourceKey, dict[EngineId, _Known]] = defaultdict(dict)
        self._reports: dict[ResourceKey, list[Report]] = defaultdict(list)

    def follow(self, key: ResourceKey, targets: Iterable[Target]) -> None:
        """These are the engines of a resource to converse with from now on."""
        known, now = self._known[key], {target.place.engine: target for target in targets}
        for engine in known.keys() - now.keys():
            self._end(known.pop(engine))
        for engine, target in now.items():
            entry = known.setdefault(engine, _Known(target))
            if entry.target.request != target.request and entry.pause is not None:
                entry.pause.cancel()
            entry.target = target
            if entry.task is None:
                entry.task = asyncio.create_task(self._follow(key, entry))
        if not known:
            self._known.pop(key)

    def forget(self, key: ResourceKey) -> None:
        """The resource is gone, or isn't ours any more."""
        self.follow(key, ())
        self._reports.pop(key, None)

    def stop(self) -> None:
        """End all; what was shown and isn't written yet will be shown again."""
        for key in tuple(self._known):
            self.forget(key)

    def reports(self, key: ResourceKey) -> tuple[Report, ...]:
        """What was shown of a resource, and isn't `written` yet."""
        return tuple(self._reports.get(key, ()))

    def written(self, key: ResourceKey, reports: Sequence[Report]) -> None:
        """These need not be told again."""
        # By identity: two conversations in succession may say the same, and both count.
        left = [each for each in self._reports.get(key, ()) if all(each is not done for done in reports)]
        if left:
            self._reports[key] = left
        else:
            self._reports.pop(key, None)

    def _keep(self, key: ResourceKey, report: Report) -> None:
        waiting = self._reports[key]
        waiting.append(report)
        del waiting[:-_MOST_WAITING]
        self._on_report(key)

    def _end(self, entry: _Known) -> None:
        if entry.task is not None:
            entry.task.cancel()

    async def _follow(self, key: ResourceKey, entry: _Known) -> None:
        """One engine's, one after the other."""
        settled = entry.target.settled and not entry.target.request
        await self._pause(entry, entry.target.period * random.random() if settled else _FIRST_AFTER)  # noqa: S311 -- jitter, not a secret
        while True:
            async with self._room:
                target = entry.target
                report = await self._converse(target, entry.tries)
            worst = _worst(report)
            entry.tries = 0 if is_well(target, worst) and not target.request else entry.tries + 1
            self._metrics.conversations.labels(worst.value).inc()
            _log.info("conversed", cr=str(key), engine=target.place.engine, results=_told(report))
            if is_news(entry.target, report):
                self._keep(key, report)
            await self._until_due(entry, worst)

    async def _until_due(self, entry: _Known, last: Standing) -> None:
        """Until it is time for the engine's next conversation; a request that is new makes it time, and one that is over no more."""
        while not await self._pause(entry, next_after(entry.target, entry.tries, last) * random.uniform(0.8, 1)):  # noqa: S311 -- jitter, not a secret
            if entry.target.request:
                return

    async def _pause(self, entry: _Known, seconds: float) -> bool:
        """Whether it lasted so long: it ends at once when the engine's request becomes another, or none."""
        entry.pause = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait([entry.pause])
            return not entry.pause.cancelled()
        finally:
            entry.pause.cancel()
            entry.pause = None

    async def _converse(self, target: Target, number: int) -> Report:
        """Hold one conversation."""
        rank = number % target.ranks if target.ranks > 1 else None
        try:
            results = await self._results(target, rank)
            fabrics = await self._fabrics(target, results)
        except Exception as error:  # one engine's oddity must not end the others' conversations
            _log.exception("conversation failed", engine=target.place.engine, error=str(error))
            return report_of(target, {}, {})
        return report_of(target, results, fabrics)

    async def _results(self, target: Target, rank: int | None) -> Results:
        course = target.course
        # Salts of its own: no tenant's block is ever used, and none of these is by a tenant.
        salt, other = (f"tandem-verification-{secrets.token_hex(16)}" for _ in range(2))
        seed = secrets.token_hex(8)
        opening = prompt(seed, course.first)
        first = await self._engines.complete(
            target.place, request(target.model, opening, salt=salt, answer=course.answer), rank
        )
        if not isinstance(first, Answer) or not goes_on(first):
            said = await self._engines.said(target.place)
            return judge(course, first, refuses_peers=bool(said and said.refused_peers))
        await self._sleep(LANDING)
        whole = (*opening, *first.tokens, *prompt(seed, course.more))
        second = await self._engines.complete(
            target.place, request(target.model, whole, salt=salt, answer=LAST_ANSWER), rank
        )
        alone = None
        if prefill := _asked_last(target, second):
            alone = await self._engines.complete(prefill, request(target.model, whole, salt=other, answer=LAST_ANSWER))
        return judge(course, first, second, alone)

    async def _fabrics(self, target: Target, results: Results) -> dict[str, Fabric]:
        """Of decode, and of the prefill engines that took part."""
        pods = {pod_of(EngineId(engine)) for engine in results if engine}
        places = {target.pod: target.place, **{uid: target.prefills[uid] for uid in pods & target.prefills.keys()}}
        said = await asyncio.gather(*(self._engines.said(place) for place in places.values()))
        return {uid: each.fabric for uid, each in zip(places, said, strict=True) if each and each.fabric}


def _asked_last(target: Target, turn: Answer | Failed) -> Place | None:
    account = turn.account if isinstance(turn, Answer) else None
    return target.prefills.get(pod_of(EngineId(account.asked[-1]))) if account and account.asked else None


def _worst(report: Report) -> Standing:
    standings = {result.standing for result in report.results.values()}
    return next((each for each in (Standing.FAILED, Standing.OPEN, Standing.SHOWN) if each in standings), Standing.OPEN)


def _told(report: Report) -> dict[str, str]:
    return {
        peer or "itself": f"{result.reason}: {result.detail}" if result.detail else str(result.reason)
        for peer, result in report.results.items()
    }
