# SPDX-License-Identifier: Apache-2.0
"""All of asking behind one door: requests, peers and answers in, commands out.

One thread uses it. Each request that `arrived` gets either `ComputeLocally`, or `WantFrom` and then `Prefilled` or
`ComputeLocally`; `WantFrom` comes again when another P is asked. It is known until it `ended`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from tandem_connector.asking.attempts import Answered, Asked, Attempts, Failed, GivenUp, Looked, Step, Withdrawn
from tandem_connector.asking.choose import Choice, Chosen, choose
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
from tandem_connector.asking.continuity import Continuity
from tandem_connector.asking.decide import Ask, Local, decide
from tandem_connector.asking.peers import Prefillers
from tandem_connector.asking.settings import AskingSettings
from tandem_connector.asking.sharing import ShareKey, Sharing
from tandem_connector.asking.types import Answer, Arrival, CallFailed, CallId, Failure, LocalReason, Obstacle, PrefillId
from tandem_connector.contract.messages import MAX_BLOCKS
from tandem_connector.contract.peers import Peer
from tandem_connector.contract.types import QueryId
from tandem_connector.exchange.types import BlockHash, EngineId, RequestId, Seconds


@dataclass(slots=True)
class _Known:
    """A request of this engine."""

    arrival: Arrival
    at: Seconds
    ask: Ask | None = None
    engine: EngineId | None = None
    """The P that was asked last, or that has the conversation."""


@dataclass(slots=True)
class _Running:
    """The attempt at a prefill that runs now."""

    engine: EngineId
    deadline: Seconds


class Asking:
    """One decode engine's prefills."""

    def __init__(self, settings: AskingSettings) -> None:
        """Ask nobody before there is a peer table."""
        self._settings = settings
        self._prefillers = Prefillers()
        self._continuity = Continuity(settings.remembered, settings.remembered_per_end)
        self._sharing = Sharing()
        self._attempts = Attempts(settings, self._choose)
        self._known: dict[RequestId, _Known] = {}
        self._running: dict[PrefillId, _Running] = {}
        self._commands: list[Command] = []
        self._draining = False
        self.tally = AskingTally()

    def commands(self) -> list[Command]:
        """What to do since the last call, in order."""
        commands, self._commands = self._commands, []
        return commands

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._attempts.next_due()

    # -- peers ------------------------------------------------------------------------------------------------------

    def table(self, peers: Iterable[Peer], now: Seconds) -> None:
        """A new peer table holds. An engine that isn't in it, or drains, ends what it was asked for, and is asked no more."""
        self._prefillers.replace(peers)
        self._follow(now)

    def peer_gone(self, engine: EngineId, now: Seconds) -> None:
        """Its process has ended for certain."""
        self._continuity.forget(engine)
        self.peer_unreachable(engine, now)

    def drain(self, *, drains: bool) -> None:
        """Whether this engine is to end: then it computes new requests itself. Those that were asked for go on."""
        self._draining = drains

    def peer_reachable(self, engine: EngineId) -> None:
        """Its Hello was accepted, or it is heard again."""
        self._prefillers.reachable(engine)

    def peer_unreachable(self, engine: EngineId, now: Seconds) -> None:
        """It is silent, or its connection was closed."""
        self._prefillers.unreachable(engine)
        self._attempts.peer_lost(engine, now)
        self._follow(now)

    def peer_load(self, engine: EngineId, waiting_tokens: int) -> None:
        """What a `Pong` or `Ping` of the engine says."""
        self._prefillers.waiting(engine, waiting_tokens)

    def have(self, query: QueryId, engine: EngineId, blocks: int, now: Seconds) -> None:
        """The answer to a `SendQuery`."""
        self._attempts.have(query, engine, blocks, now)
        self._follow(now)

    # -- requests ---------------------------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival, held_blocks: int, now: Seconds) -> None:
        """A request is new; that it is told of a second time is of no consequence.

        Args:
            arrival: the request.
            held_blocks: how many of the prompt's first blocks are in the engine's own prefix cache.
            now: the time.
        """
        if arrival.request in self._known:
            return
        known = self._known[arrival.request] = _Known(arrival, now)
        decision = Local(LocalReason.DRAINING) if self._draining else decide(arrival, held_blocks, self._settings)
        match decision:
            case Local(why):
                self._compute_locally(known, why)
            case Ask():
                known.ask = decision
                self._join(known, decision, now)
            case _:
                assert_never(decision)
        self._follow(now)

    def progressed(self, request: RequestId, now: Seconds) -> None:
        """Some of the wanted blocks have come."""
        prefill = self._sharing.prefill_of(request)
        if prefill is not None:
            self._attempts.progressed(prefill, now)

    def unserved(self, request: RequestId, engine: EngineId, now: Seconds) -> None:
        """The engine says that what is wanted will not come, though the call to it hasn't ended: ask the next one."""
        prefill = self._sharing.prefill_of(request)
        running = self._running.get(prefill) if prefill is not None else None
        if prefill is not None and running is not None and running.engine == engine:
            self._attempts.fail(prefill, Failure.UNSERVED, "nobody computes the blocks", now)
            self._follow(now)

    def helps_itself(self, request: RequestId, now: Seconds) -> None:
        """The request doesn't wait for a P any more, whatever the reason. Nothing more is said of it."""
        self._leave(request)
        self._follow(now)

    def ended(self, request: RequestId, hashes: Sequence[BlockHash], now: Seconds) -> None:
        """The request was finished or aborted; `hashes` are of all its full blocks, output included."""
        known = self._known.pop(request, None)
        if known is None:
            return
        self._leave(request)
        if known.engine is not None:
            self._continuity.remember(hashes, len(known.arrival.hashes), known.engine)
        self._follow(now)

    def call_ended(self, call: CallId, outcome: Answer | CallFailed, now: Seconds) -> None:
        """A call has ended; one that was cancelled is of no interest."""
        self._attempts.call_ended(call, outcome, now)
        self._follow(now)

    def tick(self, now: Seconds) -> None:
        """Do what is due."""
        self._attempts.tick(now)
        self._follow(now)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _join(self, known: _Known, ask: Ask, now: Seconds) -> None:
        prefill = self._sharing.join(ShareKey.of(known.arrival, ask.stop), known.arrival)
        if len(self._sharing.members(prefill)) == 1:
            self._attempts.begin(prefill, ask.missing_tokens, now)
            return
        self.tally.shared += 1
        running = self._running.get(prefill)
        if running is not None:
            self._want_from(known, running)

    def _leave(self, request: RequestId) -> None:
        left = self._sharing.leave(request)
        if left is None:
            return
        if left.is_over:
            self._attempts.close(left.prefill)
            self._running.pop(left.prefill, None)
        elif left.promoted is not None:
            self.tally.promoted += 1

    def _choose(
        self, prefill: PrefillId, tried: frozenset[EngineId], haves: Mapping[EngineId, int] | None, now: Seconds
    ) -> Choice:
        known = self._leader(prefill)
        hashes = known.arrival.hashes
        candidates = self._prefillers.candidates(now, tried, known.arrival.lora)
        usable = frozenset(candidate.engine for candidate in candidates)
        tokens = _asked(known).missing_tokens
        choice = choose(
            candidates,
            missing_tokens=tokens,
            first=hashes[0],
            home=self._continuity.find(hashes, usable),
            haves=haves,
            settings=self._settings,
        )
        if isinstance(choice, Chosen):
            # At once: when a P is lost, all who asked it choose anew before anything else happens.
            self._prefillers.asked(choice.engine, tokens)
        return choice

    def _leader(self, prefill: PrefillId) -> _Known:
        return self._known[self._sharing.leader(prefill).request]

    def _follow(self, now: Seconds) -> None:
        for step in self._attempts.steps():
            self._follow_one(step, now)

    def _follow_one(self, step: Step, now: Seconds) -> None:
        match step:
            case Looked(prefill, query, engines):
                known = self._leader(prefill)
                hashes = known.arrival.hashes[: min(_asked(known).stop, MAX_BLOCKS)]
                self._commands.append(SendQuery(query, engines, hashes))
            case Asked():
                self._start(step, now)
            case Withdrawn(call):
                self._commands.append(CancelCall(call))
            case Failed(prefill, engine, failure, _):
                self.tally.failures[failure] += 1
                until = Seconds(now + self._settings.rest)
                if failure.is_servers:
                    self._prefillers.rest_server(engine, until)
                elif failure.lets_rest:
                    lora = self._leader(prefill).arrival.lora if failure.may_be_the_adapters else None
                    self._prefillers.rest(engine, until, lora)
            case Answered(prefill, engine, receipt):
                self.tally.answered += 1
                del self._running[prefill]
                for request in self._sharing.close(prefill):
                    took = Seconds(now - self._known[request].at)
                    self._commands.append(Prefilled(request, engine, receipt, took))
            case GivenUp(prefill, why):
                self._running.pop(prefill, None)
                for request in self._sharing.close(prefill):
                    self._compute_locally(self._known[request], why)
            case _:
                assert_never(step)

    def _start(self, asked: Asked, now: Seconds) -> None:
        leader = self._leader(asked.prefill)
        ask = _asked(leader)
        self.tally.calls[asked.how] += 1
        running = self._running[asked.prefill] = _Running(asked.engine, asked.deadline)
        self._commands.append(
            StartCall(
                call=asked.call,
                engine=asked.engine,
                address=self._prefillers.address(asked.engine),
                arrival=leader.arrival,
                held_tokens=ask.held_tokens,
                timeout=Seconds(asked.deadline - now),
            )
        )
        for request in self._sharing.members(asked.prefill):
            self._want_from(self._known[request], running)

    def _want_from(self, known: _Known, running: _Running) -> None:
        ask = _asked(known)
        known.engine = running.engine
        request = known.arrival.request
        self._commands.append(WantFrom(request, running.engine, ask.start, ask.stop, running.deadline))

    def _compute_locally(self, known: _Known, why: LocalReason | Obstacle) -> None:
        self.tally.local[why] += 1
        known.engine = self._continuity.find(known.arrival.hashes, self._prefillers.usable())
        self._commands.append(ComputeLocally(known.arrival.request, why, known.engine))


def _asked(known: _Known) -> Ask:
    """What the request was decided to ask for; whoever takes part in a prefill was."""
    if known.ask is None:
        raise ValueError(f"{known.arrival.request} doesn't ask")
    return known.ask
