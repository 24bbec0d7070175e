# SPDX-License-Identifier: Apache-2.0
"""Which piece of which job is posted next. Decides only; the writer's loop posts."""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tandem_connector.exchange.types import EngineId, Index, JobId, Seconds, StepId, Write
from tandem_connector.vllm.pieces import Piece, pieces_of
from tandem_connector.vllm.reports import JobEnded, Outcome
from tandem_connector.vllm.transport import TransferState


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is posted at one time."""

    piece_bytes: int = 16 << 20
    """Bytes of one transfer, at least one block. Over TCP larger ones stop the main thread for longer while NIXL copies
    (see `nixl.py`), and ones of 8 MiB took a quarter more CPU."""
    pieces_per_peer: int = 2
    """Transfers that run to one peer at one time: one on the wire while the other's end is noticed. What is more waits
    here, where a deadline still stops it, and a slow peer doesn't hold up the others."""
    pieces: int = 64
    """Transfers that run at one time."""


@dataclass(slots=True, eq=False)
class _Job:
    write: Write
    unposted: deque[Piece]
    running: int = 0
    written: list[Index] = field(default_factory=list)
    outcome: Outcome = Outcome.WRITTEN
    why: str = ""


@dataclass(slots=True)
class _Line:
    """The jobs of one peer that may be posted, in the order in which they became valid."""

    jobs: deque[_Job] = field(default_factory=deque)
    running: int = 0


class Jobs:
    """All jobs that haven't ended.

    A job waits for its step, then in its peer's line, and its pieces run. It ends once, when none of its pieces is
    unposted or running. After the first piece that failed no other piece of the job is posted.
    """

    def __init__(self, limits: Limits, block_bytes: int) -> None:
        self._limits = limits
        self._blocks_per_piece = max(1, limits.piece_bytes // block_bytes)
        self._jobs: dict[JobId, _Job] = {}
        self._waiting: dict[StepId, list[_Job]] = {}
        self._lines: dict[EngineId, _Line] = {}
        self._deadlines: list[tuple[Seconds, JobId]] = []
        self._ran = StepId(-1)
        self._running = 0
        self._ended: list[JobEnded] = []

    @property
    def running(self) -> int:
        """Pieces that were taken and haven't ended."""
        return self._running

    @property
    def awaits_steps(self) -> bool:
        """Whether a job waits for a step that hasn't run."""
        return bool(self._waiting)

    @property
    def unended(self) -> int:
        """Jobs that haven't ended."""
        return len(self._jobs)

    def add(self, write: Write) -> None:
        """Queue a job: behind its step, if that hasn't run, else in its peer's line.

        Raises:
            ValueError: there is a job of this id that hasn't ended.
        """
        if write.job in self._jobs:
            raise ValueError(f"job {write.job} was given twice")
        job = self._jobs[write.job] = _Job(write, deque(pieces_of(write, self._blocks_per_piece)))
        heapq.heappush(self._deadlines, (write.deadline, write.job))
        if write.after is not None and write.after > self._ran:
            self._waiting.setdefault(write.after, []).append(job)
        else:
            self._line_up(job)
        self._end_if_over(job)

    def step_ran(self, step: StepId) -> None:
        """What `step` and the steps before it computed is valid."""
        self._ran = max(self._ran, step)
        for each in sorted(waited for waited in self._waiting if waited <= self._ran):
            for job in self._waiting.pop(each):
                self._line_up(job)

    def withdraw(self, jobs: Iterable[JobId], why: str) -> None:
        """Post nothing more of these jobs. Unknown ids have ended already."""
        for job_id in jobs:
            if (job := self._jobs.get(job_id)) is not None:
                self._give_up(job, why)

    def drop(self, peer: EngineId, why: str) -> None:
        """Post nothing more to this peer. The caller ends the pieces that run."""
        self.withdraw([job.write.job for job in self._jobs.values() if job.write.peer == peer], why)

    def withdraw_all(self, why: str) -> None:
        """Post nothing more at all."""
        self.withdraw(list(self._jobs), why)

    def expire(self, now: Seconds) -> None:
        """Post nothing more of the jobs whose deadline has passed."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, job_id = heapq.heappop(self._deadlines)
            self.withdraw([job_id], "the deadline passed")

    def next_deadline(self) -> Seconds | None:
        """When `expire` has something to do, at the earliest; None when it never has."""
        while self._deadlines and self._deadlines[0][1] not in self._jobs:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def take(self, now: Seconds) -> Piece | None:
        """The piece to post now, from then on running; None when nothing is valid or the limits are reached.

        Peers take turns.
        """
        self.expire(now)
        if self._running >= self._limits.pieces:
            return None
        for peer, line in list(self._lines.items()):
            if line.running >= self._limits.pieces_per_peer or not line.jobs:
                continue
            job = line.jobs[0]
            piece = job.unposted.popleft()
            if not job.unposted:
                line.jobs.popleft()
            job.running += 1
            line.running += 1
            self._running += 1
            self._lines[peer] = self._lines.pop(peer)  # to the end: the others are next
            return piece
        return None

    def ended(self, piece: Piece, state: TransferState, why: str = "") -> None:
        """A piece that ran is `DONE`, or `BROKEN` and may still be written."""
        job = self._stop_running(piece)
        if state is TransferState.DONE:
            job.written.extend(piece.indices)
        else:
            self._fail(job, Outcome.UNCERTAIN, why)
            self._give_up(job, why)
        self._end_if_over(job)

    def not_posted(self, piece: Piece, why: str) -> None:
        """A piece that was taken could not be posted, and nothing of it was written."""
        job = self._stop_running(piece)
        self._fail(job, Outcome.NOT_POSTED, why)
        self._give_up(job, why)
        self._end_if_over(job)

    def take_ended(self) -> list[JobEnded]:
        """The jobs that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _line_up(self, job: _Job) -> None:
        if job.unposted:
            self._lines.setdefault(job.write.peer, _Line()).jobs.append(job)

    def _give_up(self, job: _Job, why: str) -> None:
        if job.unposted:
            job.unposted.clear()
            line = self._lines.get(job.write.peer)
            if line is not None and job in line.jobs:
                line.jobs.remove(job)
                self._close_if_empty(job.write.peer, line)
            self._fail(job, Outcome.NOT_POSTED, why)
        self._end_if_over(job)

    @staticmethod
    def _fail(job: _Job, outcome: Outcome, why: str) -> None:
        """The first failure is told, but an uncertain one rather than any other."""
        if job.outcome is Outcome.WRITTEN or (outcome is Outcome.UNCERTAIN and job.outcome is Outcome.NOT_POSTED):
            job.outcome, job.why = outcome, why

    def _stop_running(self, piece: Piece) -> _Job:
        job = self._jobs[piece.write.job]
        line = self._lines[piece.write.peer]
        job.running -= 1
        line.running -= 1
        self._running -= 1
        self._close_if_empty(piece.write.peer, line)
        return job

    def _close_if_empty(self, peer: EngineId, line: _Line) -> None:
        if not line.running and not line.jobs:
            del self._lines[peer]

    def _end_if_over(self, job: _Job) -> None:
        if not job.unposted and not job.running and self._jobs.pop(job.write.job, None) is not None:
            self._ended.append(JobEnded(job.write.job, tuple(job.written), job.outcome, job.why))
