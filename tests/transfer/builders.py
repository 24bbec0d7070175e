# SPDX-License-Identifier: Apache-2.0
"""Writes and tensors for the tests of the data path."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tandem_connector.exchange.types import BlockId, EngineId, Index, JobId, Seconds, StepId, WantId, Write

A, B, C = EngineId("a"), EngineId("b"), EngineId("c")
NEVER = Seconds(1e9)


def a_write(
    job: int = 1,
    *,
    to: EngineId = B,
    want: int = 7,
    sources: Sequence[int] = (0,),
    destinations: Sequence[int] | None = None,
    deadline: float = NEVER,
    after: int | None = None,
) -> Write:
    return Write(
        job=JobId(job),
        peer=to,
        want=WantId(want),
        indices=tuple(Index(number) for number in range(len(sources))),
        sources=tuple(BlockId(block) for block in sources),
        destinations=tuple(BlockId(block) for block in (sources if destinations is None else destinations)),
        deadline=Seconds(deadline),
        after=None if after is None else StepId(after),
    )


@dataclass(frozen=True)
class ADevice:
    type: str = "cpu"
    index: int | None = None


@dataclass(frozen=True)
class ATensor:
    """As much of a torch tensor as its geometry needs."""

    shape: tuple[int, ...]
    address: int = 1 << 20
    strides: tuple[int, ...] | None = None
    element_bytes: int = 2
    device: ADevice = ADevice()

    def stride(self) -> tuple[int, ...]:
        return self.strides or tuple(prod(self.shape[place + 1 :]) for place in range(len(self.shape)))

    def element_size(self) -> int:
        return self.element_bytes

    def data_ptr(self) -> int:
        return self.address
