# SPDX-License-Identifier: Apache-2.0
"""What the scheduler's side tells the ranks with a step, and what they tell it with the step's output.

The ranks carry out `orders` in order before the step's forward pass.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from tandem_connector.contract.messages import RankMemory
from tandem_connector.exchange.types import BlockId, EngineId, RequestId, StepId
from tandem_connector.vllm.commands import DropPeer, Expect, ExpectFewer, Forget, Submit, Withdraw
from tandem_connector.vllm.reports import Report


@dataclass(frozen=True, slots=True)
class AddPeerRanks:
    """Write to this peer from now on, each rank to its own."""

    peer: EngineId
    ranks: tuple[RankMemory, ...]
    blocks: int


Order: TypeAlias = AddPeerRanks | DropPeer | Expect | ExpectFewer | Forget | Submit | Withdraw


@dataclass(frozen=True, slots=True)
class FinishedLoad:
    """A request waits no more for blocks from elsewhere."""

    request: RequestId
    lacking: tuple[BlockId, ...]
    """Its blocks that hold nothing: the engine computes from the first of them on."""


@dataclass(frozen=True, slots=True)
class StepOrders:
    """All that goes with one step."""

    step: StepId
    orders: tuple[Order, ...] = ()
    finished: tuple[FinishedLoad, ...] = ()

    @classmethod
    def none(cls) -> "StepOrders":
        """Nothing, on an engine without peers."""
        return cls(StepId(0))


@dataclass(frozen=True, slots=True)
class RankReport:
    """What one rank has to say with the output of one step."""

    rank: int
    step: StepId
    """The step that ran."""
    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class StepReports:
    """What all ranks have to say."""

    ranks: tuple[RankReport, ...] = field(default_factory=tuple)

    def merged(self, other: "StepReports") -> "StepReports":
        """Both together."""
        return StepReports(self.ranks + other.ranks)
