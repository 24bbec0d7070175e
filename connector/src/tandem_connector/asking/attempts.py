# SPDX-License-Identifier: Apache-2.0
"""The attempts at one prefill after another: never one P twice, and always an end.

    begin -> [LOOKING] -> ASKED --answer--> Answered
                 ^           |
                 |           +-- refused, timeout, 5xx, garbage, slow, lost: the next P, if there is one and time
                 |           |
                 +-----------+--> GivenUp: none is left, or the request is wrong, or it is too late

`close` ends a prefill at any moment without a word but the withdrawal of its call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from typing import Final, Protocol, TypeAlias, assert_never

from tandem_connector.asking.choose import Choice, Chosen, How, LookAround
from tandem_connector.asking.settings import AskingSettings
from tandem_connector.asking.types import Answer, CallFailed, CallId, Failure, LocalReason, PrefillId
from tandem_connector.contract.prefill import PrefillReceipt
from tandem_connector.contract.types import QueryId
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import EngineId, Seconds


@dataclass(frozen=True, slots=True)
class Looked:
    """Send these Ps the query; tell of the answers by `Attempts.have`."""

    prefill: PrefillId
    query: QueryId
    engines: tuple[EngineId, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """Make the call; tell of its end by `Attempts.call_ended`."""

    prefill: PrefillId
    call: CallId
    engine: EngineId
    how: How
    deadline: Seconds
    """When the prefill's time is over, with all attempts."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Break the call off. Its end isn't waited for."""

    call: CallId


@dataclass(frozen=True, slots=True)
class Failed:
    """This P failed; what follows says what becomes of the prefill."""

    prefill: PrefillId
    engine: EngineId
    failure: Failure
    detail: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The prefill has ended: P has computed it."""

    prefill: PrefillId
    engine: EngineId
    receipt: PrefillReceipt | None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The prefill has ended: no P computes it."""

    prefill: PrefillId
    why: LocalReason


Step: TypeAlias = Looked | Asked | Withdrawn | Failed | Answered | GivenUp


class Chooser(Protocol):
    """Chooses a P for a prefill; asked again after each failure."""

    def __call__(
        self, prefill: PrefillId, tried: frozenset[EngineId], haves: Mapping[EngineId, int] | None, now: Seconds
    ) -> Choice:
        """None of `tried`; `haves` are the answers to a `LookAround`, None if there was none yet."""
        ...


_NONE: Final = Seconds(0)


class _Stage(Enum):
    CHOOSING = auto()
    LOOKING = auto()
    ASKED = auto()


@dataclass(slots=True)
class _Prefill:
    id: PrefillId
    tokens: int
    deadline: Seconds
    stage: _Stage = _Stage.CHOOSING
    tried: set[EngineId] = field(default_factory=set)
    call: CallId | None = None
    engine: EngineId | None = None
    patience: Seconds = _NONE
    query: QueryId | None = None
    unheard: set[EngineId] = field(default_factory=set)
    haves: dict[EngineId, int] | None = None


class Attempts:
    """All prefills that are being asked for."""

    def __init__(self, settings: AskingSettings, choose: Chooser) -> None:
        self._settings = settings
        self._choose = choose
        self._calls = count(1)
        self._queries = count(1)
        self._prefills: dict[PrefillId, _Prefill] = {}
        self._by_call: dict[CallId, _Prefill] = {}
        self._by_query: dict[QueryId, _Prefill] = {}
        self._due: Timers[PrefillId] = Timers()
        self._steps: list[Step] = []

    def steps(self) -> list[Step]:
        """What happened since the last call, in order."""
        steps, self._steps = self._steps, []
        return steps

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._due.next_due()

    # -- events -----------------------------------------------------------------------------------------------------

    def begin(self, prefill: PrefillId, tokens: int, now: Seconds) -> None:
        """Ask for a prefill of so many missing tokens; the id is new."""
        deadline = Seconds(now + 2 * self._settings.patience_for(tokens))
        state = self._prefills[prefill] = _Prefill(prefill, tokens, deadline)
        self._next(state, now)

    def close(self, prefill: PrefillId) -> None:
        """Nobody waits for the prefill any more."""
        state = self._prefills.get(prefill)
        if state is not None:
            self._withdraw(state)
            self._end(state)

    def have(self, query: QueryId, engine: EngineId, blocks: int, now: Seconds) -> None:
        """A P says how many of the prompt's first blocks it holds; late and unasked answers are nothing."""
        state = self._by_query.get(query)
        if state is not None and state.haves is not None and engine in state.unheard:
            state.haves[engine] = blocks
            self._heard(state, engine, now)

    def call_ended(self, call: CallId, outcome: Answer | CallFailed, now: Seconds) -> None:
        """The call has ended; nothing, if it was withdrawn."""
        state = self._by_call.pop(call, None)
        if state is None or state.engine is None:
            return
        state.call = None
        match outcome:
            case Answer(receipt):
                self._steps.append(Answered(state.id, state.engine, receipt))
                self._end(state)
            case CallFailed(failure, detail):
                self._failed(state, failure, detail, now)
            case _:
                assert_never(outcome)

    def fail(self, prefill: PrefillId, failure: Failure, detail: str, now: Seconds) -> None:
        """Something else than the call shows that the P which is asked will not do it."""
        state = self._prefills.get(prefill)
        if state is not None and state.stage is _Stage.ASKED:
            self._failed(state, failure, detail, now)

    def progressed(self, prefill: PrefillId, now: Seconds) -> None:
        """Blocks have come: the P which is asked is at work, and its time begins anew."""
        state = self._prefills.get(prefill)
        if state is not None and state.stage is _Stage.ASKED:
            self._wait(state, state.patience, now)

    def peer_lost(self, engine: EngineId, now: Seconds) -> None:
        """The P is silent, or gone."""
        for state in list(self._prefills.values()):
            if state.stage is _Stage.ASKED and state.engine == engine:
                self._failed(state, Failure.PEER_LOST, "", now)
            elif state.stage is _Stage.LOOKING and engine in state.unheard:
                self._heard(state, engine, now)

    def tick(self, now: Seconds) -> None:
        """Do what is due."""
        for prefill in self._due.pop_due(now):
            state = self._prefills[prefill]
            if state.stage is _Stage.LOOKING:
                self._next(state, now)
            else:
                self._failed(state, Failure.SLOW, "no progress", now)

    def __len__(self) -> int:
        return len(self._prefills)

    # -- what follows -----------------------------------------------------------------------------------------------

    def _next(self, state: _Prefill, now: Seconds) -> None:
        self._forget_query(state)
        state.stage = _Stage.CHOOSING
        if now >= state.deadline:
            self._give_up(state, LocalReason.TOO_LATE)
            return
        choice: Choice = None
        if len(state.tried) < self._settings.attempts:
            choice = self._choose(state.id, frozenset(state.tried), state.haves, now)
        match choice:
            case None:
                self._give_up(state, LocalReason.ALL_FAILED if state.tried else LocalReason.NO_PEER)
            case LookAround(engines):
                self._look(state, engines, now)
            case Chosen() as chosen:
                self._ask(state, chosen, now)
            case _:
                assert_never(choice)

    def _look(self, state: _Prefill, engines: tuple[EngineId, ...], now: Seconds) -> None:
        state.stage = _Stage.LOOKING
        state.query = QueryId(next(self._queries))
        state.unheard, state.haves = set(engines), {}
        self._by_query[state.query] = state
        self._wait(state, self._settings.query_patience, now)
        self._steps.append(Looked(state.id, state.query, engines))

    def _heard(self, state: _Prefill, engine: EngineId, now: Seconds) -> None:
        state.unheard.discard(engine)
        if not state.unheard:
            self._next(state, now)

    def _ask(self, state: _Prefill, chosen: Chosen, now: Seconds) -> None:
        if chosen.engine in state.tried:
            raise ValueError(f"{chosen.engine} was tried before")
        state.stage = _Stage.ASKED
        state.engine, state.call = chosen.engine, CallId(next(self._calls))
        state.tried.add(chosen.engine)
        state.patience = self._settings.patience_for(chosen.load + state.tokens)
        self._by_call[state.call] = state
        self._wait(state, state.patience, now)
        self._steps.append(Asked(state.id, state.call, chosen.engine, chosen.how, state.deadline))

    def _failed(self, state: _Prefill, failure: Failure, detail: str, now: Seconds) -> None:
        self._withdraw(state)
        if state.engine is not None:
            self._steps.append(Failed(state.id, state.engine, failure, detail))
        if failure.is_final:
            self._give_up(state, LocalReason.REJECTED)
        else:
            self._next(state, now)

    def _give_up(self, state: _Prefill, why: LocalReason) -> None:
        self._steps.append(GivenUp(state.id, why))
        self._end(state)

    def _withdraw(self, state: _Prefill) -> None:
        if state.call is not None:
            del self._by_call[state.call]
            self._steps.append(Withdrawn(state.call))
            state.call = None

    def _forget_query(self, state: _Prefill) -> None:
        if state.query is not None:
            del self._by_query[state.query]
            state.query = None

    def _wait(self, state: _Prefill, patience: Seconds, now: Seconds) -> None:
        self._due.set(state.id, Seconds(min(now + patience, state.deadline)))

    def _end(self, state: _Prefill) -> None:
        self._forget_query(state)
        self._due.cancel(state.id)
        del self._prefills[state.id]
