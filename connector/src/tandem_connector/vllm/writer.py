# SPDX-License-Identifier: Apache-2.0
"""The writer of one rank: a thread that owns the transport, so that no step of the engine waits for the network.

The rank's main thread gives it commands and takes its reports; neither call waits. All of NIXL is called on the
writer's thread, from creating the agent to closing it.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tandem_connector.contract.messages import RankMemory
from tandem_connector.exchange.types import EngineId, JobId, StepId, WantId, Write
from tandem_connector.vllm.commands import (
    AddPeer,
    Command,
    DropPeer,
    Event,
    Expect,
    Finish,
    Forget,
    StepRan,
    Submit,
    Withdraw,
)
from tandem_connector.vllm.jobs import Limits
from tandem_connector.vllm.loop import Counts, WriterLoop
from tandem_connector.vllm.pacing import Intervals
from tandem_connector.vllm.reports import Report
from tandem_connector.vllm.transport import TransferT, Transport

_log = logging.getLogger(__name__)
_JOIN_MARGIN = 1.0
"""Seconds that closing NIXL may take beyond the patience with running transfers."""


class WriterError(Exception):
    """The writer's thread has ended by an error: this engine can't exchange KV any more, and must be restarted."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The writer's numbers."""

    limits: Limits = field(default_factory=Limits)
    intervals: Intervals = field(default_factory=Intervals)


def agent_name(engine: EngineId, rank: int) -> str:
    """Name of a rank's NIXL agent: who sent a notification is told by it, and that it is this incarnation's."""
    return f"{engine}/{rank}"


class Writer:
    """A running writer. Its methods may be called from any one thread, and return at once (but `close`)."""

    def __init__(
        self,
        open_transport: Callable[[], Transport[TransferT]],
        rank: int,
        settings: WriterSettings | None = None,
        on_reports: Callable[[Sequence[Report]], None] | None = None,
    ) -> None:
        """Open the transport on a new thread, and wait for that.

        Args:
            open_transport: creates the rank's transport. On CUDA it must also choose the device for the thread.
            rank: this rank, whose peers are the same rank of other engines.
            settings: other numbers than the defaults.
            on_reports: called on the writer's thread with what `reports` will give, and without anything when the writer
                has failed; must return at once.

        Raises:
            TransportError: the transport can't be opened.
        """
        self._settings = settings or WriterSettings()
        self._rank = rank
        self._on_reports = on_reports
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._outbox: deque[Report] = deque()
        self._opened: queue.SimpleQueue[tuple[RankMemory, Counts] | Exception] = queue.SimpleQueue()
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._run, args=(open_transport,), name=f"tandem-writer-{rank}", daemon=True
        )
        self._thread.start()
        opened = self._opened.get()
        if isinstance(opened, Exception):
            self._thread.join()
            raise opened
        self.memory, self.counts = opened

    memory: RankMemory
    """What peers must be told to write into this rank's memory."""
    counts: Counts
    """What the writer did until now."""

    def add_peer(self, peer: EngineId, memory: RankMemory, blocks: int) -> None:
        """Make this rank of `peer`, whose pool has `blocks` blocks, writable. `PeerLost` is reported if it is refused.

        A peer of that id that is there already is dropped first.
        """
        self._inbox.put(AddPeer(peer, memory, blocks))

    def drop_peer(self, peer: EngineId) -> None:
        """Close the connection to `peer`. Its jobs end: `NOT_POSTED`, or `UNCERTAIN` where something was posted."""
        self._inbox.put(DropPeer(peer))

    def submit(self, writes: Iterable[Write]) -> None:
        """Give jobs. `JobEnded` is reported once for each. Ids of jobs that haven't ended must not be used again."""
        self._inbox.put(Submit(tuple(writes)))

    def withdraw(self, jobs: Iterable[JobId]) -> None:
        """Post nothing more of these jobs; they end `NOT_POSTED`, or as what is posted of them ends."""
        self._inbox.put(Withdraw(tuple(jobs)))

    def step_ran(self, step: StepId, event: Event | None = None) -> None:
        """What `step` computes is valid when `event` has completed; without an event, now.

        To be called for every step that any job waits for, in order, also when it had no forward pass.

        Args:
            step: the step whose forward pass was launched.
            event: recorded on the compute stream after the forward pass. It is queried on the writer's thread.
        """
        self._inbox.put(StepRan(step, event))

    def expect(self, want: WantId, peer: EngineId, blocks: int) -> None:
        """Report what `peer` writes for `want`, whose indices are below `blocks`, as `Received`.

        Want ids must grow. Until the want is forgotten the writer polls.
        """
        self._inbox.put(Expect(want, peer, blocks))

    def forget(self, want: WantId) -> None:
        """Report nothing more for `want`; nothing when it isn't expected."""
        self._inbox.put(Forget(want))

    def reports(self) -> list[Report]:
        """What happened since the last call, oldest first.

        Raises:
            WriterError: the writer's thread has failed.
        """
        if self._failure is not None:
            raise WriterError(
                f"the KV writer of rank {self._rank} failed: {self._failure!r}; restart the engine"
            ) from (self._failure)
        reports = []
        while self._outbox:
            reports.append(self._outbox.popleft())
        return reports

    def close(self, patience: float = 2.0) -> bool:
        """Post nothing more, wait for what runs, close the transport; the last reports can be taken afterwards.

        Args:
            patience: seconds to wait for running transfers, which then end `UNCERTAIN`.

        Returns:
            Whether the thread has ended. False only when NIXL itself hangs; end the process then by `os._exit`.
        """
        self._inbox.put(Finish(patience))
        self._thread.join(patience + _JOIN_MARGIN)
        return not self._thread.is_alive()

    def _run(self, open_transport: Callable[[], Transport[TransferT]]) -> None:
        try:
            transport = open_transport()
            loop = WriterLoop(
                transport,
                agent_of=lambda peer: agent_name(peer, self._rank),
                limits=self._settings.limits,
                intervals=self._settings.intervals,
            )
            opened = (transport.memory(), loop.counts)
        except Exception as error:
            self._opened.put(error)
            return
        self._opened.put(opened)
        try:
            self._work(loop)
        except Exception as error:
            _log.exception("writer_failed rank=%d", self._rank)
            self._failure = error
            self._tell(())

    def _work(self, loop: WriterLoop[TransferT]) -> None:
        pause = 0.0
        while not loop.finished:
            self._carry_out(loop, pause)
            pause = loop.turn()
            self._publish(loop)
        loop.close()
        self._publish(loop)

    def _carry_out(self, loop: WriterLoop[TransferT], pause: float) -> None:
        try:
            loop.handle(self._inbox.get(timeout=pause))
            while True:
                loop.handle(self._inbox.get_nowait())
        except queue.Empty:
            return

    def _publish(self, loop: WriterLoop[TransferT]) -> None:
        if reports := loop.take_reports():
            self._outbox.extend(reports)
            self._tell(reports)

    def _tell(self, reports: Sequence[Report]) -> None:
        if self._on_reports is not None:
            self._on_reports(reports)
