# SPDX-License-Identifier: Apache-2.0
"""The work queue: which resources to look at, never what happened to them."""

import asyncio
import collections
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from tandem_operator.metrics import Metrics

Key = TypeVar("Key", bound=Hashable)

_log = structlog.get_logger()


class WorkQueue(Generic[Key]):
    """Each key is worked on by at most one worker at a time, and none is lost.

    A key added while it waits is dropped. A key added while it is worked on is queued again when that ends: what the worker read
    may have been too old. Adding is cheap and needs no worker, so a standby replica fills its queue up to one entry
    per key and works it off when it becomes the leader.

    Args:
        metrics: gets depth and latency.
        clock: seconds, monotonic; the event loop's unless given.
        first_delay: seconds before the first repetition after a failure; doubled with each further one.
        longest_delay: seconds between repetitions that keep failing.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        clock: Callable[[], float] | None = None,
        first_delay: float = 0.1,
        longest_delay: float = 300.0,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock or self._loop.time
        self._metrics = metrics
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._waiting: collections.OrderedDict[Key, float] = collections.OrderedDict()
        self._active: dict[Key, float] = {}
        self._added_while_active: dict[Key, tuple[float, Callable[[], bool]]] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._questions: dict[Key, asyncio.TimerHandle] = {}
        self._failures: collections.Counter[Key] = collections.Counter()
        self._available = asyncio.Semaphore(0)
        """One permit for each key that waits."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, still: Callable[[], bool] | None = None) -> None:
        """Have the key worked on as soon as a worker is free.

        Args:
            key: what to look at.
            still: whether there is still a reason for it, asked when a worker has just ended with the key that had it meanwhile;
                default: there is.
        """
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._active:
            since, _ = self._added_while_active.get(key, (self._clock(), _always))
            if still is None or key not in self._added_while_active:
                self._added_while_active[key] = (since, still or _always)
        elif key not in self._waiting:
            self._enqueue(key, self._clock())

    def add_after(self, key: Key, delay: float) -> None:
        """Have the key worked on in `delay` seconds, or earlier if that was asked for already."""
        if key in self._waiting or key in self._added_while_active:
            return
        due = self._loop.time() + delay
        if timer := self._timers.get(key):
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = self._loop.call_at(due, self.add, key)

    def add_if_still(self, key: Key, delay: float, still: Callable[[], bool]) -> None:
        """Have the key worked on in `delay` seconds if there is still a reason for it then, which `still` says.

        Asked once after the first of several such calls, and not at all when the key is worked on before that: that look has seen the
        reason. What was planned otherwise stays planned.
        """
        if key not in self._questions:
            self._questions[key] = self._loop.call_later(delay, self._ask, key, still)

    def forget(self, key: Key) -> None:
        """Drop what is planned for the key and how often it failed. A worker that has it now ends normally."""
        for planned in (self._timers, self._questions):
            if timer := planned.pop(key, None):
                timer.cancel()
        self._failures.pop(key, None)

    def longest_active(self) -> float:
        """Seconds for which the slowest worker has been busy with its key; 0 when none is busy."""
        return max((self._clock() - since for since in self._active.values()), default=0.0)

    def longest_waiting(self) -> float:
        """Seconds for which the oldest key has been waiting for a worker; 0 when none waits."""
        return max((self._clock() - since for since in self._waiting.values()), default=0.0)

    async def work(self, process: Callable[[Key], Awaitable[float | None]]) -> None:
        """Be one worker, until cancelled. A key whose processing is cut off so is queued again.

        Args:
            process: returns the seconds until the key is to be looked at again, or None. When it raises, the key is
                repeated with growing delays.
        """
        while True:
            await self._available.acquire()
            key, since = self._waiting.popitem(last=False)
            if question := self._questions.pop(key, None):
                question.cancel()
            now = self._clock()
            self._active[key] = now
            self._metrics.queue_depth.set(len(self._waiting))
            self._metrics.queue_latency.observe(now - since)
            again: float | None = None
            try:
                again = await process(key)
                self._failures.pop(key, None)
            except asyncio.CancelledError:
                self.add(key)
                raise
            except Exception:
                self._failures[key] += 1
                again = self._delay_after(self._failures[key])
                _log.exception("reconcile failed", cr=key, failures=self._failures[key], again_seconds=round(again, 1))
            finally:
                del self._active[key]
                added, still = self._added_while_active.pop(key, (None, _always))
                if added is not None and still():
                    self._enqueue(key, added)
                elif again is not None:
                    self.add_after(key, again)

    def _ask(self, key: Key, still: Callable[[], bool]) -> None:
        del self._questions[key]
        if still():
            self.add(key, still)

    def _delay_after(self, failures: int) -> float:
        # The exponent is bounded because a float is: 2.0**1100 raises.
        delay = self._first_delay * 2.0 ** min(failures - 1, 64)
        return min(delay, self._longest_delay) * random.uniform(0.5, 1.0)  # noqa: S311 -- jitter, not a secret

    def _enqueue(self, key: Key, since: float) -> None:
        self._timers.pop(key, None)
        self._waiting[key] = since
        self._metrics.queue_depth.set(len(self._waiting))
        self._available.release()


def _always() -> bool:
    return True
