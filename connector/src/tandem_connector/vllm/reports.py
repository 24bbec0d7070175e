# SPDX-License-Identifier: Apache-2.0
"""What the writer of one rank tells the rank's main thread. All ranks' reports together are what the scheduler hears."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tandem_connector.exchange.types import EngineId, Index, JobId, WantId


class Outcome(StrEnum):
    """How a job ended at this rank."""

    WRITTEN = "written"
    """All of its blocks are in the peer's memory."""
    NOT_POSTED = "not_posted"
    """What isn't written was never posted, and won't be."""
    UNCERTAIN = "uncertain"
    """The connection broke, or was dropped, under a posted write. What isn't written may still land: UCX can't take back
    what it has handed to the network. The places stay dangerous until the peer's process is gone or the transport's
    bound has passed, also after the peer was told that these blocks are missing."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """Nothing of this job is queued or polled any more; reported once."""

    job: JobId
    written: tuple[Index, ...]
    """The indices that surely arrived, in no order."""
    outcome: Outcome
    """What became of all the others."""
    why: str = ""
    """Cause of an outcome other than `WRITTEN`, for the log."""


@dataclass(frozen=True, slots=True)
class Received:
    """A peer's write into this rank's memory is complete. An index may come more than once."""

    want: WantId
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class PeerLost:
    """Writes to this peer end as `NOT_POSTED` until it is added again."""

    peer: EngineId
    why: str


Report: TypeAlias = JobEnded | Received | PeerLost
