# SPDX-License-Identifier: Apache-2.0
"""Whatever happens in whatever order: each request is told one end, no P is asked twice for one prefill, nothing is left."""

from collections import defaultdict

import hypothesis.strategies as st
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tandem_connector.asking.asking import Asking
from tandem_connector.asking.commands import (
    CancelCall,
    ComputeLocally,
    Prefilled,
    SendQuery,
    StartCall,
    WantFrom,
)
from tandem_connector.asking.types import Answer, CallFailed, CallId, Failure
from tandem_connector.contract.types import EngineState, QueryId
from tandem_connector.exchange.types import EngineId, RequestId, Seconds
from tests.asking.builders import SETTINGS, a_peer, an_arrival, names

PS = [EngineId(f"p{number}-1") for number in range(4)]
any_p = st.sampled_from(PS)
numbers = st.integers(0, 1_000)


class AskingMachine(RuleBasedStateMachine):
    """One decode engine with up to four Ps, of which none is reliable."""

    def __init__(self) -> None:
        super().__init__()
        self.asking = Asking(SETTINGS)
        self.now = Seconds(0.0)
        self.next_request = 0
        self.reachable: set[EngineId] = set()
        self.ready: set[EngineId] = set()
        self.waiting: dict[RequestId, str] = {}
        """Live requests that were told no end yet, with their conversation."""
        self.told: dict[RequestId, str] = {}
        self.calls: dict[CallId, StartCall] = {}
        self.queries: list[tuple[QueryId, EngineId]] = []
        self.wants: dict[RequestId, EngineId] = {}
        self.asked_for: dict[RequestId, list[EngineId]] = defaultdict(list)

    # -- what the surroundings do with the commands -------------------------------------------------------------------

    def obey(self) -> None:
        for command in self.asking.commands():
            match command:
                case StartCall():
                    assert command.engine in self.ready & self.reachable
                    assert command.arrival.request in self.waiting
                    assert command.call not in self.calls
                    assert command.timeout > 0
                    self.calls[command.call] = command
                case CancelCall(call):
                    del self.calls[call]
                case SendQuery(query, engines, _):
                    self.queries += [(query, engine) for engine in engines]
                case WantFrom(request, engine, start, stop, deadline):
                    assert request in self.waiting
                    assert start < stop
                    assert deadline > self.now
                    assert engine not in self.asked_for[request]
                    self.asked_for[request].append(engine)
                    self.wants[request] = engine
                case Prefilled(request, engine, _, took):
                    assert self.wants.pop(request) == engine
                    assert took >= 0
                    self.told[request] = self.waiting.pop(request)
                case ComputeLocally(request, _, _):
                    self.wants.pop(request, None)
                    self.told[request] = self.waiting.pop(request)

    # -- what happens -------------------------------------------------------------------------------------------------

    @rule(chain=st.sampled_from("xyz"), tokens=st.sampled_from([10, 300, 1_000, 6_000]), held=st.integers(0, 80))
    def arrive(self, chain: str, tokens: int, held: int) -> None:
        self.next_request += 1
        request = RequestId(f"r{self.next_request}")
        self.waiting[request] = chain
        self.asking.arrived(an_arrival(request, tokens, chain=chain), held, self.now)
        self.obey()

    @rule(number=numbers, tokens=st.sampled_from([400, 1_100, 6_100]))
    def end(self, number: int, tokens: int) -> None:
        live = [*self.waiting, *self.told]
        if live:
            request = live[number % len(live)]
            chain = self.waiting.pop(request, None) or self.told.pop(request)
            self.wants.pop(request, None)
            self.asking.ended(request, names(tokens // SETTINGS.block_size, chain), self.now)
            self.obey()

    @rule(number=numbers, failure=st.none() | st.sampled_from(Failure))
    def end_call(self, number: int, failure: Failure | None) -> None:
        if self.calls:
            call = list(self.calls)[number % len(self.calls)]
            del self.calls[call]
            outcome = Answer(None) if failure is None else CallFailed(failure, "")
            self.asking.call_ended(call, outcome, self.now)
            self.obey()

    @rule(number=numbers, blocks=st.integers(0, 400))
    def answer_query(self, number: int, blocks: int) -> None:
        if self.queries:
            query, engine = self.queries[number % len(self.queries)]
            self.asking.have(query, engine, blocks, self.now)
            self.obey()

    @rule(number=numbers, what=st.sampled_from(["progressed", "unserved", "helps_itself"]))
    def hear_of_blocks(self, number: int, what: str) -> None:
        if self.wants:
            request = list(self.wants)[number % len(self.wants)]
            if what == "progressed":
                self.asking.progressed(request, self.now)
            elif what == "unserved":
                self.asking.unserved(request, self.wants[request], self.now)
            else:
                self.told[request] = self.waiting.pop(request)
                del self.wants[request]
                self.asking.helps_itself(request, self.now)
            self.obey()

    @rule(states=st.dictionaries(any_p, st.sampled_from(EngineState)))
    def replace_table(self, states: dict[EngineId, EngineState]) -> None:
        self.ready = {engine for engine, state in states.items() if state is EngineState.READY}
        self.asking.table([a_peer(engine, state=state) for engine, state in states.items()], self.now)
        self.obey()

    @rule(engine=any_p)
    def connect(self, engine: EngineId) -> None:
        self.reachable.add(engine)
        self.asking.peer_reachable(engine)

    @rule(engine=any_p)
    def lose(self, engine: EngineId) -> None:
        self.reachable.discard(engine)
        self.asking.peer_unreachable(engine, self.now)
        self.obey()

    @rule(engine=any_p, tokens=st.integers(0, 50_000))
    def hear_load(self, engine: EngineId, tokens: int) -> None:
        self.asking.peer_load(engine, tokens)

    @rule(seconds=st.sampled_from([0.01, 0.1, 5.0, 30.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.now = Seconds(self.now + seconds)
        self.asking.tick(self.now)
        self.obey()

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def calls_are_for_somebody_who_waits(self) -> None:
        wanted = set(self.wants.values())
        assert all(call.engine in wanted for call in self.calls.values())

    @invariant()
    def nothing_waits_without_an_end_in_sight(self) -> None:
        assert (self.asking.next_due() is not None) == bool(self.waiting)

    def teardown(self) -> None:
        """Time alone ends everything."""
        for _ in range(20):
            due = self.asking.next_due()
            if due is None:
                break
            self.now = due
            self.asking.tick(self.now)
            self.obey()
        assert not self.waiting
        assert not self.calls
        assert not self.wants


AskingMachine.TestCase.settings = hypothesis_settings(max_examples=150, stateful_step_count=40, deadline=None)
test_asking_keeps_its_promises = AskingMachine.TestCase
