# SPDX-License-Identifier: Apache-2.0
"""The blocks that this engine's requests wait for: from the decision where they come from to the end of the wait.

A request's wait begins once (`matched`, then `allocated`) and ends once, with a `FinishedLoad`. In between it may turn
from one peer to another, into the same blocks: the same names are the same content, whoever writes it.

    ASKED -> READY -> WAITING <-> BETWEEN -> DONE
                                                 all but DONE may also go there at once: the engine computes
"""

from collections.abc import Container, Sequence
from typing import Final, assert_never

from tandem_connector.asking.commands import ComputeLocally, Prefilled, WantFrom
from tandem_connector.contract.messages import MAX_TTL
from tandem_connector.exchange.commands import LoadEnded
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EndReason,
    EngineId,
    Purpose,
    RequestId,
    Seconds,
    WantId,
)
from tandem_connector.exchange.worth import Worth
from tandem_connector.vllm.asker import AskerPort, Decision
from tandem_connector.vllm.finished import FinishedLoads
from tandem_connector.vllm.holding import Holding
from tandem_connector.vllm.orders import FinishedLoad
from tandem_connector.vllm.turns import UNDELIVERED, Phase, Source, Turn

DECISION_PATIENCE: Final = 5.0
"""Seconds for a decision of asking, which takes milliseconds; after that the engine computes."""


_WAITS: Final = {Phase.ASKED, Phase.WAITING, Phase.BETWEEN}


class Loading:
    """All requests of this engine. Scheduler's thread."""

    def __init__(
        self,
        exchange: Exchange,
        asker: AskerPort | None,
        coming: Container[RequestId],
        worth: Worth,
        *,
        hold: float,
        offers: bool,
        fetches: bool,
    ) -> None:
        """Without requests.

        Args:
            exchange: the engine's.
            asker: None on an engine that asks nobody.
            coming: requests that asking was told of, and that haven't ended.
            worth: whether blocks that are elsewhere are worth waiting for.
            hold: seconds for which a request waits for blocks that are on their way for somebody else.
            offers: whether a request's blocks are offered to its P.
            fetches: whether sources of `Purpose.REVERSE_FETCH` may be used.
        """
        self._exchange = exchange
        self._asker = asker
        self._coming = coming
        self._worth = worth
        self._holding = Holding(exchange, worth, hold)
        self._offers = offers
        self._fetches = fetches
        self._turns: dict[RequestId, Turn] = {}
        self._early: dict[RequestId, list[Decision]] = {}
        self._of_want: dict[WantId, RequestId] = {}
        self._between: Timers[RequestId] = Timers()
        """Until when requests wait for a decision in `BETWEEN`."""
        self.finished = FinishedLoads()

    def turn(self, request: RequestId) -> Turn | None:
        """The request's, while it lives."""
        return self._turns.get(request)

    def waits(self, request: RequestId) -> bool:
        """Whether the request waits for something that this side will be told of."""
        turn = self._turns.get(request)
        return turn is not None and (turn.phase in _WAITS or turn.held_since is not None)

    # -- a request --------------------------------------------------------------------------------------------------

    def arrived(
        self, request: RequestId, hashes: Sequence[BlockHash], now: Seconds, *, asked: bool, source: Source | None
    ) -> None:
        """A request is new; `asked`: asking was told of it; `source`: where its blocks are, if that is known already."""
        usable = source if source is None or source.purpose is not Purpose.REVERSE_FETCH or self._fetches else None
        phase = Phase.ASKED if asked else Phase.READY if usable else Phase.DONE
        self._turns[request] = Turn(request, hashes, now, phase, source=usable, settled=not asked)
        for decision in self._early.pop(request, ()):
            self.decided(decision, now)

    def decided(self, decision: Decision, now: Seconds) -> None:
        """Asking has decided something of a request, which may reach the scheduler later, or have ended."""
        turn = self._turns.get(decision.request)
        if turn is None:
            if decision.request in self._coming:
                self._early.setdefault(decision.request, []).append(decision)
            return
        if turn.ended:
            return
        match decision:
            case WantFrom():
                self._turn_to(turn, decision, now)
            case ComputeLocally(_, why, home):
                turn.settled, turn.why_local = True, why.value
                self._offer_to(turn, home)
                self._compute(turn, now)
            case Prefilled(_, _, receipt):
                turn.settled, turn.receipt = True, receipt
                if turn.phase is Phase.BETWEEN:
                    self._finish(turn, now)
            case _:
                assert_never(decision)

    def _turn_to(self, turn: Turn, want: WantFrom, now: Seconds) -> None:
        turn.asked.append(want.engine)
        if turn.phase is Phase.DONE:
            self._help_itself(turn)
            return
        turn.source = Source(want.engine, want.stop, want.deadline, Purpose.FORWARD)
        self._offer_to(turn, want.engine)
        match turn.phase:
            case Phase.ASKED:
                turn.phase = Phase.READY
            case Phase.WAITING:
                self._exchange.cancel(turn.request, now)
                self._ask(turn, now)
            case Phase.BETWEEN:
                self._ask(turn, now)

    def _offer_to(self, turn: Turn, engine: EngineId | None) -> None:
        if self._offers and engine is not None:
            self._exchange.offers_go_to(turn.request, engine)

    def _compute(self, turn: Turn, now: Seconds) -> None:
        turn.source = None
        match turn.phase:
            case Phase.WAITING:
                self._exchange.cancel(turn.request, now)  # the wait ends with the want, whose last blocks count
            case Phase.BETWEEN:
                self._finish(turn, now)
            case _:
                turn.phase = Phase.DONE

    # -- the scheduler's questions ----------------------------------------------------------------------------------

    def matched(self, request: RequestId, computed: int, usable: int, now: Seconds) -> int | None:
        """How many blocks the request is to wait for, after those that it has; None: that can't be said yet.

        Args:
            request: a new request, or one that was preempted.
            computed: blocks that are in the engine's own cache.
            usable: blocks that may come from elsewhere, `computed` included; the engine computes the last token.
            now: the time.
        """
        turn = self._turns.get(request)
        if turn is None:
            return 0
        if turn.local_blocks is None:
            turn.local_blocks = computed
        if turn.phase is Phase.DONE and turn.blocks:
            return 0
        if self._holding.holds(turn, computed, usable, now):
            return None
        if turn.phase is Phase.ASKED:
            if now - turn.arrived < DECISION_PATIENCE:
                self._holding.ask_again(request, Seconds(turn.arrived + DECISION_PATIENCE))
                return None
            self._help_itself(turn)
        source, stop = turn.source, turn.reach(computed, usable)
        if (
            turn.phase is not Phase.READY
            or source is None
            or now >= source.deadline
            or not self._is_worth(turn, source, stop - computed, now)
        ):
            turn.phase = Phase.DONE
            return 0
        turn.start, turn.stop = computed, stop
        return stop - computed

    def _is_worth(self, turn: Turn, source: Source, blocks: int, now: Seconds) -> bool:
        if blocks < source.least:
            return False
        if 2 * self._exchange.exposable() < blocks:
            self._help_itself(turn)
            return False
        if source.purpose is not Purpose.REVERSE_FETCH:
            return True
        if turn.fetch is None:
            turn.fetch = self._worth.patience(blocks, now) > 0
        return turn.fetch

    def computes(self, request: RequestId) -> None:
        """The engine computes the request: what has come for it has entered the cache."""
        self._holding.settled(request)

    def allocated(self, request: RequestId, blocks: Sequence[BlockId], now: Seconds) -> None:
        """The request has these blocks, and waits; some blocks after `matched` has said how many."""
        turn = self._turns[request]
        turn.blocks = tuple(blocks[turn.start : turn.stop])
        turn.began = now
        self._ask(turn, now)

    def _ask(self, turn: Turn, now: Seconds) -> None:
        source, first = turn.source, turn.lacking()
        # What peers may not write into yet is wanted when the first part has come.
        most = 0 if first is None else max(turn.exposed_to - first, self._exchange.exposable())
        if source is None or first is None or most == 0:
            self._finish(turn, now)
            return
        ttl = min(source.deadline - now, MAX_TTL)
        want = None
        if ttl > 0:
            load = turn.load(source, first, most, Seconds(ttl))
            turn.exposed_to = first + len(load.blocks)
            want = self._exchange.want(source.engine, load, now)
        if want is None:
            self._next_peer(turn, source.engine, now)
            return
        turn.phase = Phase.WAITING
        self._between.cancel(turn.request)
        turn.wants[want] = first
        self._of_want[want] = turn.request

    def _next_peer(self, turn: Turn, engine: EngineId, now: Seconds) -> None:
        if turn.settled or self._asker is None:
            self._finish(turn, now)
            return
        turn.phase = Phase.BETWEEN
        self._between.set(turn.request, Seconds(now + DECISION_PATIENCE))
        self._asker.unserved(turn.request, engine)

    # -- what comes -------------------------------------------------------------------------------------------------

    def received(self, want: WantId) -> None:
        """Blocks of a want have come."""
        request = self._of_want.get(want)
        if request is not None and self._asker is not None:
            self._asker.progressed(request)

    def load_ended(self, load: LoadEnded, now: Seconds) -> None:
        """A want of a request has ended."""
        self._of_want.pop(load.want, None)
        turn = self._turns.get(load.request)
        if turn is None or load.want not in turn.wants:
            return
        if not turn.take(load) or turn.phase is not Phase.WAITING:
            return
        if turn.ended or load.reason is EndReason.RESET or turn.lacking() is None:
            self._finish(turn, now)
        elif load.reason is EndReason.COMPLETE:
            turn.exposed_to = 0
            self._ask(turn, now)
        else:
            self._next_peer(turn, load.peer, now)

    def _finish(self, turn: Turn, now: Seconds) -> None:
        """End the request's wait, which has begun."""
        if turn.phase is Phase.DONE or not turn.blocks:
            turn.phase = Phase.DONE
            return
        lacking = turn.lacking_blocks()
        if lacking and not turn.ended:
            turn.why_local = turn.why_local or UNDELIVERED
            self._help_itself(turn)
        # An aborted request computes nothing: its blocks are only given back.
        self.finished.add(FinishedLoad(turn.request, () if turn.ended else lacking))
        turn.phase = Phase.DONE
        self._between.cancel(turn.request)
        if not turn.ended:
            self._holding.settles(turn.request, turn.arrived_hashes())
        if turn.began is not None:
            turn.waited += now - turn.began

    def _help_itself(self, turn: Turn) -> None:
        if not turn.settled and self._asker is not None:
            turn.settled = True
            self._asker.helps_itself(turn.request)

    # -- ends -------------------------------------------------------------------------------------------------------

    def request_ended(self, request: RequestId, now: Seconds) -> Turn | None:
        """The request is over. If it waits, its wait ends now, whatever still comes."""
        self._early.pop(request, None)
        self._holding.forget(request)
        turn = self._turns.pop(request, None)
        if turn is None:
            return None
        turn.ended = True
        for want in turn.wants:
            self._of_want.pop(want, None)
        if turn.phase in {Phase.WAITING, Phase.BETWEEN}:
            self._finish(turn, now)
        return turn

    def tick(self, now: Seconds) -> bool:
        """End waits for a decision that doesn't come; whether `matched` would say something else now."""
        for request in self._between.pop_due(now):
            self._finish(self._turns[request], now)
        return self._holding.tick(now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        due = (self._between.next_due(), self._holding.next_due())
        return min((at for at in due if at is not None), default=None)
