# SPDX-License-Identifier: Apache-2.0
"""Writes that the workers were asked for, the references that they need, and what waits until there are fewer."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TypeAlias

from tandem_connector.exchange.availability import Fresh
from tandem_connector.exchange.commands import PostWrite, WithdrawWrites
from tandem_connector.exchange.served_want import ServedWant
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import BlockId, Index, JobId, Seconds, StepId, Write, WriteEnd

Found: TypeAlias = list[tuple[Index, BlockId]]
"""Places of a want, and the own blocks that hold what is wanted there."""


class Posting:
    """Sources are referenced from the moment a write is asked for until its end is reported."""

    def __init__(self, shared: Shared, fresh: Fresh) -> None:
        self._settings = shared.settings
        self._pool = shared.pool
        self._outbox = shared.outbox
        self._fresh = fresh
        self._ids = count(1)
        self._jobs: dict[JobId, tuple[ServedWant, Write]] = {}
        self._queue: deque[tuple[ServedWant, Index]] = deque()
        self._broken: dict[JobId, tuple[BlockId, ...]] = {}
        """Sources of writes that broke: what the network has of them may still read them."""
        self._lingers: Timers[JobId] = Timers()
        self.pinned = 0

    def find(self, want: ServedWant, indices: Sequence[Index]) -> tuple[dict[StepId | None, Found], list[Index]]:
        """What of these is in the cache, by the step that makes it valid; and what is not there."""
        found: dict[StepId | None, Found] = {}
        absent = []
        for index in indices:
            block = self._pool.lookup(want.hashes[index])
            if block is None:
                absent.append(index)
            else:
                found.setdefault(self._fresh.step_of(block), []).append((index, block))
        return found, absent

    def post(self, want: ServedWant, found: Found, after: StepId | None) -> None:
        """Ask for the writes, as many as may be referenced; the others wait."""
        room = max(0, self._settings.pinned_blocks - self.pinned)
        for index, _ in found[room:]:
            want.ready.add(index)
            self._queue.append((want, index))
        posted = found[:room]
        for start in range(0, len(posted), self._settings.blocks_per_write):
            part = posted[start : start + self._settings.blocks_per_write]
            write = Write(
                job=JobId(next(self._ids)),
                peer=want.peer,
                want=want.id,
                indices=tuple(index for index, _ in part),
                sources=tuple(block for _, block in part),
                destinations=tuple(want.destinations[index] for index, _ in part),
                deadline=want.deadline,
                after=after,
            )
            self._pool.pin(write.sources)
            self.pinned += len(write.sources)
            want.jobs.add(write.job)
            self._jobs[write.job] = want, write
            self._outbox.put(PostWrite(write))

    def ended(self, job: JobId, end: WriteEnd, now: Seconds) -> tuple[ServedWant, Write]:
        """The job's want and blocks, whose references are given back, now or when a broken write can't read them."""
        want, write = self._jobs.pop(job)
        want.jobs.remove(job)
        if end is WriteEnd.UNCERTAIN:
            self._broken[job] = write.sources
            self._lingers.set(job, Seconds(now + self._settings.transport_bound))
        else:
            self._unpin(write.sources)
        return want, write

    def tick(self, now: Seconds) -> bool:
        """Give back the references of writes that broke long ago; whether there were any."""
        due = self._lingers.pop_due(now)
        for job in due:
            self._unpin(self._broken.pop(job))
        return bool(due)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._lingers.next_due()

    @property
    def lingering(self) -> bool:
        """Blocks are referenced for writes that broke."""
        return bool(self._broken)

    def _unpin(self, sources: tuple[BlockId, ...]) -> None:
        self._pool.unpin(sources[::-1])
        self.pinned -= len(sources)

    def withdraw(self, want: ServedWant) -> None:
        """What was not posted need not be."""
        if want.jobs:
            self._outbox.put(WithdrawWrites(tuple(sorted(want.jobs))))

    def post_waiting(self) -> Iterator[tuple[ServedWant, list[Index]]]:
        """Ask for what waits, while there is room; yields the wants it was asked for, with what has left the cache since."""
        while self._queue and self.pinned < self._settings.pinned_blocks:
            want = self._queue[0][0]
            room = self._settings.pinned_blocks - self.pinned
            chosen: list[Index] = []
            while self._queue and self._queue[0][0] is want and len(chosen) < room:
                _, index = self._queue.popleft()
                if index in want.ready:
                    want.ready.remove(index)
                    chosen.append(index)
            found, lost = self.find(want, chosen)
            for after, blocks in found.items():
                self.post(want, blocks, after)
            yield want, lost

    def __bool__(self) -> bool:
        return bool(self._jobs)
