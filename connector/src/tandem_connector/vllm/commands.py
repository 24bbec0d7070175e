# SPDX-License-Identifier: Apache-2.0
"""What the writer is told by the rank's main thread."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tandem_connector.contract.messages import RankMemory
from tandem_connector.exchange.types import EngineId, JobId, StepId, WantId, Write


class Event(Protocol):
    """What is used of `torch.cuda.Event`."""

    def query(self) -> bool:
        """Whether all work before the event has completed; doesn't wait."""
        ...


@dataclass(frozen=True, slots=True)
class AddPeer:
    """Write to this peer from now on. In place of an older one of the same id, whose jobs end."""

    peer: EngineId
    memory: RankMemory
    blocks: int


@dataclass(frozen=True, slots=True)
class DropPeer:
    """Write to this peer no more: jobs end, its connection is closed."""

    peer: EngineId


@dataclass(frozen=True, slots=True)
class Submit:
    """Jobs."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Post nothing more of these jobs."""

    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class StepRan:
    """The forward pass of this step was launched; it has run when `event` has completed, or has run already."""

    step: StepId
    event: Event | None


@dataclass(frozen=True, slots=True)
class Expect:
    """Count what the peer writes for this want."""

    want: WantId
    peer: EngineId
    blocks: int


@dataclass(frozen=True, slots=True)
class ExpectFewer:
    """So many of the want's blocks won't come."""

    want: WantId
    blocks: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Don't count for this want any more."""

    want: WantId


@dataclass(frozen=True, slots=True)
class Finish:
    """Post nothing more, and stop when nothing runs, or after `patience` seconds."""

    patience: float


Command: TypeAlias = AddPeer | DropPeer | Submit | Withdraw | StepRan | Expect | Forget | Finish
