# SPDX-License-Identifier: Apache-2.0
"""What has happened on all ranks: a block has come when each of them has its part, a write is over when it is on each."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tandem_connector.exchange.types import EngineId, Index, JobId, StepId, WantId
from tandem_connector.vllm.orders import RankReport
from tandem_connector.vllm.reports import JobEnded, Outcome, PeerLost, Received


@dataclass(frozen=True, slots=True)
class BlocksReceived:
    """All ranks have these blocks of a want."""

    want: WantId
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class WriteEnded:
    """No rank has the job any more; `outcome` is the worst of all of them."""

    job: JobId
    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True)
class PeerUnwritable:
    """A rank lost its connection to the peer."""

    peer: EngineId
    why: str


@dataclass(frozen=True, slots=True)
class StepRanEverywhere:
    """The forward pass of this step, and of those before it, has run on all ranks."""

    step: StepId


Happened: TypeAlias = BlocksReceived | WriteEnded | PeerUnwritable | StepRanEverywhere

_WORSE = {Outcome.WRITTEN: 0, Outcome.NOT_POSTED: 1, Outcome.UNCERTAIN: 2}


@dataclass(slots=True)
class _Job:
    reported: set[int] = field(default_factory=set)
    worst: Outcome = Outcome.WRITTEN
    why: str = ""


class Ranks:
    """Counts over `size` ranks."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._wants: dict[WantId, dict[Index, set[int]]] = {}
        self._jobs: dict[JobId, _Job] = {}
        self._steps: dict[int, StepId] = {}
        self._ran = StepId(-1)

    def expect(self, want: WantId) -> None:
        """Count for this want."""
        self._wants[want] = {}

    def forget(self, want: WantId) -> None:
        """Don't, any more."""
        self._wants.pop(want, None)

    def take(self, reports: Iterable[RankReport]) -> list[Happened]:
        """What has now happened on all ranks, in order."""
        happened: list[Happened] = []
        for report in reports:
            self._steps[report.rank] = report.step
            for each in report.reports:
                match each:
                    case Received(want, indices):
                        self._received(report.rank, want, indices, happened)
                    case JobEnded():
                        self._ended(report.rank, each, happened)
                    case PeerLost(peer, why):
                        happened.append(PeerUnwritable(peer, why))
        if len(self._steps) == self._size and (ran := min(self._steps.values())) > self._ran:
            self._ran = ran
            # First: what has come or was written by then may be looked up as valid at once.
            happened.insert(0, StepRanEverywhere(ran))
        return happened

    def _received(self, rank: int, want: WantId, indices: Iterable[Index], happened: list[Happened]) -> None:
        counted = self._wants.get(want)
        if counted is None:
            return
        whole = []
        for index in indices:
            ranks = counted.setdefault(index, set())
            if rank not in ranks:
                ranks.add(rank)
                if len(ranks) == self._size:
                    whole.append(index)
        if whole:
            happened.append(BlocksReceived(want, tuple(whole)))

    def _ended(self, rank: int, report: JobEnded, happened: list[Happened]) -> None:
        job = self._jobs.setdefault(report.job, _Job())
        job.reported.add(rank)
        if _WORSE[report.outcome] > _WORSE[job.worst]:
            job.worst, job.why = report.outcome, report.why
        if len(job.reported) == self._size:
            del self._jobs[report.job]
            happened.append(WriteEnded(report.job, job.worst, job.why))
