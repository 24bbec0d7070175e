# SPDX-License-Identifier: Apache-2.0
"""Carries out what `asking` decides, on a thread of its own: it must not wait for the scheduler's steps.

Whoever has something to tell it puts that into its queue, and goes on.
"""

import logging
import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Thread
from typing import Protocol, TypeAlias, assert_never

from tandem_connector.asking.asking import Asking
from tandem_connector.asking.commands import (
    AskingTally,
    CancelCall,
    Command,
    ComputeLocally,
    Prefilled,
    SendQuery,
    StartCall,
    WantFrom,
)
from tandem_connector.asking.types import Answer, Arrival, CallFailed, CallId
from tandem_connector.asking.wire import PrefillCall
from tandem_connector.contract.messages import Message, Query
from tandem_connector.contract.peers import Peer
from tandem_connector.contract.types import QueryId
from tandem_connector.exchange.types import BlockHash, EngineId, RequestId, Seconds

_log = logging.getLogger(__name__)

Decision: TypeAlias = WantFrom | ComputeLocally | Prefilled
"""What the scheduler's side is told of a request."""
_Event: TypeAlias = Callable[[Seconds], None]


class Caller(Protocol):
    """What is used of `prefill.PrefillCaller`."""

    def start(self, call: PrefillCall) -> None:
        """Send the request."""
        ...

    def cancel(self, call: CallId) -> None:
        """Close its connection."""
        ...


class AskerPort(Protocol):
    """What a request that waits has to say to an `Asker`."""

    def progressed(self, request: RequestId) -> None:
        """Some of its blocks have come."""
        ...

    def unserved(self, request: RequestId, engine: EngineId) -> None:
        """The engine won't send them: ask the next one."""
        ...

    def helps_itself(self, request: RequestId) -> None:
        """It waits no more."""
        ...


class Asker:
    """Its methods may be called from any thread, and return at once."""

    def __init__(
        self,
        asking: Asking,
        *,
        caller: Caller,
        call_of: Callable[[StartCall], PrefillCall],
        send: Callable[[EngineId, Message], None],
        loads: Callable[[], Mapping[EngineId, int]],
        decided: Callable[[Decision], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread.

        Args:
            asking: the decisions; given to this for good.
            caller: makes prefill requests; `call_ended` is to be told of their ends.
            call_of: the HTTP request for a call.
            send: sends a message to a peer.
            loads: what each peer last said of its queue, in tokens.
            decided: told on this thread what becomes of a request; must return at once.
            clock: the one of all times.
        """
        self._asking = asking
        self._caller = caller
        self._call_of = call_of
        self._send = send
        self._loads = loads
        self._decided = decided
        self._clock = clock
        self._events: queue.SimpleQueue[_Event | None] = queue.SimpleQueue()
        self._thread = Thread(target=self._run, name="tandem-asker", daemon=True)
        self._thread.start()

    @property
    def tally(self) -> AskingTally:
        """What was done until now; its counters only grow."""
        return self._asking.tally

    def arrived(self, arrival: Arrival, held_blocks: int) -> None:
        """See `Asking.arrived`."""

        def event(now: Seconds) -> None:
            for engine, tokens in self._loads().items():
                self._asking.peer_load(engine, tokens)
            self._asking.arrived(arrival, held_blocks, now)

        self._events.put(event)

    def table(self, peers: Iterable[Peer], gone: Sequence[EngineId]) -> None:
        """A new peer table holds; `gone` are processes that have ended for certain."""
        listed = tuple(peers)

        def event(now: Seconds) -> None:
            self._asking.table(listed, now)
            for engine in gone:
                self._asking.peer_gone(engine, now)

        self._events.put(event)

    def drain(self, *, drains: bool) -> None:
        """See `Asking.drain`."""
        self._events.put(lambda _: self._asking.drain(drains=drains))

    def peer_reachable(self, engine: EngineId) -> None:
        """See `Asking.peer_reachable`."""
        self._events.put(lambda _: self._asking.peer_reachable(engine))

    def peer_unreachable(self, engine: EngineId) -> None:
        """See `Asking.peer_unreachable`."""
        self._events.put(lambda now: self._asking.peer_unreachable(engine, now))

    def have(self, query: QueryId, engine: EngineId, blocks: int) -> None:
        """See `Asking.have`."""
        self._events.put(lambda now: self._asking.have(query, engine, blocks, now))

    def progressed(self, request: RequestId) -> None:
        """See `Asking.progressed`."""
        self._events.put(lambda now: self._asking.progressed(request, now))

    def unserved(self, request: RequestId, engine: EngineId) -> None:
        """See `Asking.unserved`."""
        self._events.put(lambda now: self._asking.unserved(request, engine, now))

    def helps_itself(self, request: RequestId) -> None:
        """See `Asking.helps_itself`."""
        self._events.put(lambda now: self._asking.helps_itself(request, now))

    def ended(self, request: RequestId, hashes: Sequence[BlockHash]) -> None:
        """See `Asking.ended`."""
        self._events.put(lambda now: self._asking.ended(request, hashes, now))

    def call_ended(self, call: CallId, outcome: Answer | CallFailed) -> None:
        """See `Asking.call_ended`."""
        if isinstance(outcome, CallFailed):
            _log.info("prefill_call_failed call=%d failure=%s detail=%s", call, outcome.failure, outcome.detail)
        self._events.put(lambda now: self._asking.call_ended(call, outcome, now))

    def close(self) -> None:
        """End the thread; requests are not told of anything any more."""
        self._events.put(None)
        self._thread.join()

    # -- on the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (event := self._next()) is not None:
            now = Seconds(self._clock())
            try:
                event(now)
                self._asking.tick(now)
                for command in self._asking.commands():
                    self._carry_out(command)
            except Exception:
                # The requests concerned are computed locally when their patience ends; all others go on.
                _log.exception("asking_failed")

    def _next(self) -> _Event | None:
        due = self._asking.next_due()
        try:
            return self._events.get(timeout=None if due is None else max(0.0, due - self._clock()))
        except queue.Empty:
            return _nothing

    def _carry_out(self, command: Command) -> None:
        match command:
            case SendQuery(query, engines, hashes):
                for engine in engines:
                    self._send(engine, Query(query, hashes))
            case StartCall():
                self._caller.start(self._call_of(command))
            case CancelCall(call):
                self._caller.cancel(call)
            case WantFrom() | ComputeLocally() | Prefilled():
                self._decided(command)
            case _:
                assert_never(command)


def _nothing(_: Seconds) -> None:
    """Only the time has passed."""
