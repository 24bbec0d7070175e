# SPDX-License-Identifier: Apache-2.0
"""One turn of the writer after another: carry out commands, post, look what has completed. Owns the transport.

It runs on the writer's thread; nothing of it is called from elsewhere.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from tandem_connector.exchange.types import EngineId, Seconds
from tandem_connector.vllm.commands import (
    AddPeer,
    Command,
    DropPeer,
    Expect,
    Finish,
    Forget,
    StepRan,
    Submit,
    Withdraw,
)
from tandem_connector.vllm.jobs import Jobs, Limits
from tandem_connector.vllm.memory import PeerError
from tandem_connector.vllm.pacing import Activity, Intervals, Pacing
from tandem_connector.vllm.pieces import Piece
from tandem_connector.vllm.receipts import ReceiptCounts, Receipts, notification_of
from tandem_connector.vllm.reports import PeerLost, Received, Report
from tandem_connector.vllm.transport import (
    NotPostedError,
    PeerUnreachableError,
    TransferState,
    TransferT,
    Transport,
)

_log = logging.getLogger(__name__)
_MOVED_SECONDS = 20e-6
"""CPU time of a poll from which it has moved data; an empty one takes about 2 us."""


@dataclass(slots=True)
class Counts:
    """What a writer did. All only grow; read from any thread."""

    peers_added: int = 0
    peers_dropped: int = 0
    """Of these, those that there is no connection to any more."""
    pieces: int = 0
    """Transfers posted."""
    blocks: int = 0
    """Blocks written, surely."""
    received_blocks: int = 0
    polls: int = 0
    """Turns of the writer."""
    cpu_seconds: float = 0.0
    """CPU time of its thread."""
    notifications: ReceiptCounts = field(default_factory=ReceiptCounts)


class WriterLoop(Generic[TransferT]):
    """The writer, without its thread."""

    def __init__(
        self,
        transport: Transport[TransferT],
        agent_of: Callable[[EngineId], str],
        limits: Limits,
        intervals: Intervals,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Start with no peer.

        Args:
            transport: given to this loop for good.
            agent_of: a peer's agent of the same rank.
            limits: how much to post at one time.
            intervals: how often to poll.
            clock: the one that deadlines are of.
            cpu_clock: CPU time of this thread, which tells whether a poll moved anything.
        """
        self._transport = transport
        self._agent_of = agent_of
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._jobs = Jobs(limits, transport.geometry.block_bytes)
        self._receipts = Receipts()
        self._pacing = Pacing(intervals)
        self._running: dict[Piece, TransferT] = {}
        self._steps: deque[StepRan] = deque()
        self._peers: set[EngineId] = set()
        self._finish_by: float | None = None
        self._reports: list[Report] = []
        self.counts = Counts(notifications=self._receipts.counts)

    @property
    def finished(self) -> bool:
        """Whether `Finish` was carried out: call `close` and end."""
        return self._finish_by is not None and (not self._running or self._clock() >= self._finish_by)

    def handle(self, command: Command) -> None:
        """Carry out a command, as far as that takes no waiting."""
        match command:
            case AddPeer():
                self._add(command)
            case DropPeer(peer):
                self._drop(peer, "the peer was dropped")
            case Submit(writes):
                for write in writes:
                    self._jobs.add(write)
                if self._finish_by is not None:
                    self._jobs.withdraw_all("the writer shuts down")
            case Withdraw(jobs):
                self._jobs.withdraw(jobs, "withdrawn")
            case StepRan():
                self._steps.append(command)
            case Expect(want, peer, blocks):
                for received in self._receipts.expect(want, self._agent_of(peer), blocks):
                    self._receive(received)
            case Forget(want):
                self._receipts.forget(want)
            case Finish(patience):
                self._finish_by = self._clock() + patience
                self._jobs.withdraw_all("the writer shuts down")

    def turn(self) -> float:
        """Post and poll; returns for how many seconds to sleep at most until the next turn."""
        began = self._cpu_clock()
        moved = self._check_steps()
        moved |= self._check_transfers()
        moved |= self._take_notifications()
        moved |= self._cpu_clock() - began > _MOVED_SECONDS
        moved |= self._post()
        self._jobs.expire(Seconds(self._clock()))
        self._reports.extend(self._jobs.take_ended())
        self.counts.polls += 1
        self.counts.cpu_seconds = self._cpu_clock()
        return self._sleep(self._pacing.after_poll(self._activity(), moved=moved))

    def take_reports(self) -> list[Report]:
        """The reports since the last call."""
        reports, self._reports = self._reports, []
        return reports

    def close(self) -> None:
        """End all jobs, drop all peers, close the memory. The last call but `take_reports`."""
        self._jobs.withdraw_all("the writer shuts down")
        for peer in tuple(self._peers):
            self._drop(peer, "the writer shuts down")
        self._reports.extend(self._jobs.take_ended())
        self._transport.close()

    def _sleep(self, pace: float) -> float:
        deadline = self._jobs.next_deadline()
        return pace if deadline is None else max(0.0, min(pace, deadline - self._clock()))

    def _activity(self) -> Activity:
        if self._running or (self._steps and self._jobs.awaits_steps):
            return Activity.MOVING
        return Activity.EXPECTING if self._receipts.expecting else Activity.IDLE

    def _check_steps(self) -> bool:
        """Steps run in order on one stream, so a step's event tells nothing before its predecessors' have."""
        moved = False
        while self._steps and (self._steps[0].event is None or self._steps[0].event.query()):
            self._jobs.step_ran(self._steps.popleft().step)
            moved = True
        return moved

    def _check_transfers(self) -> bool:
        moved = False
        for piece, transfer in list(self._running.items()):
            if piece not in self._running:
                continue  # its peer was dropped in this turn
            match self._transport.state(transfer):
                case TransferState.RUNNING:
                    continue
                case TransferState.DONE:
                    del self._running[piece]
                    self._transport.release(transfer)
                    self._jobs.ended(piece, TransferState.DONE)
                    self.counts.blocks += len(piece.indices)
                case TransferState.BROKEN:
                    self._lose(piece.write.peer, "a write broke: the peer's process ended, or the network")
            moved = True
        return moved

    def _take_notifications(self) -> bool:
        notifications = self._transport.notifications()
        for agent, notification in notifications:
            self._receive(self._receipts.arrived(agent, notification))
        return bool(notifications)

    def _receive(self, received: Received | None) -> None:
        if received is not None:
            self.counts.received_blocks += len(received.indices)
            self._reports.append(received)

    def _post(self) -> bool:
        posted = False
        while (piece := self._jobs.take(Seconds(self._clock()))) is not None:
            posted = True
            peer = piece.write.peer
            notification = notification_of(piece.write.want, piece.indices)
            try:
                transfer = self._transport.post(self._agent_of(peer), piece.sources, piece.destinations, notification)
            except NotPostedError as error:
                self._jobs.not_posted(piece, str(error))
            except PeerUnreachableError as error:
                self._jobs.ended(piece, TransferState.BROKEN, str(error))
                self._lose(peer, str(error))
            else:
                self._running[piece] = transfer
                self.counts.pieces += 1
        return posted

    def _add(self, command: AddPeer) -> None:
        self._drop(command.peer, "the peer was added anew")
        try:
            self._transport.add_peer(self._agent_of(command.peer), command.memory, command.blocks)
        except PeerError as error:
            self._report_lost(command.peer, str(error))
        else:
            self._peers.add(command.peer)
            self.counts.peers_added += 1
            _log.info("writer_peer_added peer=%s", command.peer)

    def _lose(self, peer: EngineId, why: str) -> None:
        if peer in self._peers:
            self._drop(peer, why)
            self._report_lost(peer, why)

    def _report_lost(self, peer: EngineId, why: str) -> None:
        _log.warning("writer_peer_lost peer=%s why=%s", peer, why)
        self._reports.append(PeerLost(peer, why))

    def _drop(self, peer: EngineId, why: str) -> None:
        """NIXL's order: transfers, descriptor lists, the agent. Jobs end only when the connection is closed."""
        if peer not in self._peers:
            return
        _log.info("writer_peer_dropped peer=%s why=%s", peer, why)
        self._peers.discard(peer)
        self.counts.peers_dropped += 1
        self._jobs.drop(peer, why)
        pieces = [piece for piece in self._running if piece.write.peer == peer]
        for piece in pieces:
            self._transport.release(self._running.pop(piece))
        self._transport.drop_peer(self._agent_of(peer))
        for piece in pieces:
            self._jobs.ended(piece, TransferState.BROKEN, why)
