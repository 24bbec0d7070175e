# SPDX-License-Identifier: Apache-2.0
"""One rank's side: hands the writer what goes with a step, and the step's output what the writer reports."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from tandem_connector.contract.messages import RankMemory
from tandem_connector.contract.types import EngineId
from tandem_connector.exchange.types import WantId
from tandem_connector.vllm.commands import DropPeer, Event, Expect, ExpectFewer, Forget, Submit, Withdraw
from tandem_connector.vllm.doorbell import BellPush, Ring
from tandem_connector.vllm.fabric import Fabric, fabric_of
from tandem_connector.vllm.memory import Geometry, Tensor, geometry_of
from tandem_connector.vllm.nixl import NixlTransport
from tandem_connector.vllm.orders import AddPeerRanks, FinishedLoad, Order, RankReport, StepOrders
from tandem_connector.vllm.reports import Received, Report
from tandem_connector.vllm.writer import Writer, WriterSettings, agent_name

_PROGRESS_EVERY: Final = 5.0
"""Seconds after which blocks are reported although others are to come: that they come shows that the peer is at work."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RankMemoryReport:
    """What a rank tells the scheduler's side when its memory is registered."""

    memory: RankMemory
    layout: str
    block_bytes: int
    """Bytes of one block at this rank, in all layers."""
    host: str
    """Which machine it is on."""
    fabric: Fabric
    """Over what it exchanges."""


class Ringing:
    """When the engine, which may sleep between two steps, is to come for what this rank has to report.

    At once, but for blocks after which others of the same want are still to come: the engine's next step costs a second of
    spinning, and nobody can go on before the last of them. The writer's thread calls `reported`, the main one the others.
    """

    def __init__(self, engine: EngineId, clock: Callable[[], float] = time.monotonic) -> None:
        self._bell = BellPush(engine)
        self._clock = clock
        self._counting = threading.Lock()
        self._lacking: dict[WantId, int] = {}
        self._rung = 0.0

    def expect(self, want: WantId, blocks: int) -> None:
        """So many blocks are to come."""
        with self._counting:
            self._lacking[want] = blocks

    def expect_fewer(self, want: WantId, blocks: int) -> None:
        """So many of those to come will not. What has come is reported with the step that says so."""
        with self._counting:
            self._count(want, blocks)

    def forget(self, want: WantId) -> None:
        """It is over."""
        with self._counting:
            self._lacking.pop(want, None)

    def reported(self, reports: Sequence[Report]) -> None:
        """There is something to report; nothing at all: the writer has failed."""
        urgent = not reports
        with self._counting:
            for report in reports:
                if isinstance(report, Received):
                    urgent |= self._count(report.want, len(report.indices)) <= 0
                else:
                    urgent = True
        now = self._clock()
        if urgent or now - self._rung >= _PROGRESS_EVERY:
            self._rung = now
            self._bell.ring(Ring.RANK)

    def _count(self, want: WantId, blocks: int) -> int:
        lacking = self._lacking.get(want, 0) - blocks
        if want in self._lacking:
            self._lacking[want] = lacking
        return lacking

    def close(self) -> None:
        """Don't ring again."""
        self._bell.close()


class WorkerSide:
    """One rank's. Ready when `register` was called."""

    def __init__(
        self,
        me: EngineId,
        rank: int,
        blocks: int,
        backends: tuple[str, ...],
        *,
        prepare_thread: Callable[[Geometry], None],
        record_event: Callable[[], Event | None],
    ) -> None:
        """Of rank `rank`.

        Args:
            me: this engine.
            rank: the tensor-parallel rank.
            blocks: blocks in the scheduler's pool.
            backends: NIXL's.
            prepare_thread: called on the writer's thread before NIXL is: chooses the device.
            record_event: an event on the compute stream, after what was launched; None where a launch is the end of it.
        """
        self._me = me
        self._rank = rank
        self._blocks = blocks
        self._backends = backends
        self._prepare_thread = prepare_thread
        self._record_event = record_event
        self._step: StepOrders | None = None
        self._finished: tuple[FinishedLoad, ...] = ()

    def register(self, tensors: Mapping[str, Tensor]) -> RankMemoryReport:
        """The rank's KV cache is there: make it known to NIXL.

        Raises:
            LayoutError: its blocks can't be exchanged.
            TransportError: NIXL can't be had.
        """
        geometry = geometry_of(tensors, self._blocks)
        opened: list[Fabric] = []

        def open_transport() -> NixlTransport:
            self._prepare_thread(geometry)
            transport = NixlTransport.open(agent_name(self._me, self._rank), geometry, self._backends)
            opened.append(fabric_of(transport.backends, os.environ))
            return transport

        self._ringing = Ringing(self._me)
        self._writer = Writer(open_transport, self._rank, WriterSettings(), on_reports=self._ringing.reported)
        (fabric,) = opened
        _log.info(
            "kv_registered rank=%d memory=%s device=%d blocks=%d regions=%d block_bytes=%d layout=%s"
            " backend=%s provider=%s devices=%d",
            self._rank,
            geometry.kind.value,
            geometry.device,
            self._blocks,
            len(geometry.regions),
            geometry.block_bytes,
            geometry.layout,
            fabric.backend,
            fabric.provider or "any",
            fabric.devices,
        )
        return RankMemoryReport(
            self._writer.memory, geometry.layout, geometry.block_bytes, socket.gethostname(), fabric
        )

    def before_step(self, step: StepOrders) -> None:
        """A step begins: carry out what goes with it."""
        self._step = step
        self._finished = step.finished
        for order in step.orders:
            self._carry_out(order)

    def _carry_out(self, order: Order) -> None:
        match order:
            case AddPeerRanks(peer, ranks, blocks):
                self._writer.add_peer(peer, ranks[self._rank], blocks)
            case DropPeer(peer):
                self._writer.drop_peer(peer)
            case Expect(want, peer, blocks):
                self._ringing.expect(want, blocks)
                self._writer.expect(want, peer, blocks)
            case ExpectFewer(want, blocks):
                self._ringing.expect_fewer(want, blocks)
            case Forget(want):
                self._writer.forget(want)
                self._ringing.forget(want)
            case Submit(writes):
                self._writer.submit(writes)
            case Withdraw(jobs):
                self._writer.withdraw(jobs)
            case _:
                assert_never(order)

    def after_forward(self) -> None:
        """The step's forward pass was launched; also after a step without one."""
        if self._step is not None:
            self._writer.step_ran(self._step.step, self._record_event())

    def finished_loads(self) -> tuple[FinishedLoad, ...]:
        """The waits that end with this step."""
        return self._finished

    def report(self) -> RankReport:
        """What goes back with the step's output.

        Raises:
            WriterError: the writer has failed.
        """
        assert self._step is not None  # noqa: S101 - vLLM asks in steps only
        return RankReport(self._rank, self._step.step, tuple(self._writer.reports()))

    def close(self) -> None:
        """The rank ends."""
        if not self._writer.close():
            _log.warning("writer_hangs rank=%d", self._rank)
        self._ringing.close()
