# SPDX-License-Identifier: Apache-2.0
"""What is done with each step: when it is scheduled, which may take as long as nobody has anything to do, and with its output."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import RequestId, Seconds, StepId
from tandem_connector.vllm.conduct import Conduct
from tandem_connector.vllm.doorbell import Ring
from tandem_connector.vllm.draining import Draining
from tandem_connector.vllm.ending import Ending
from tandem_connector.vllm.filling import Filling
from tandem_connector.vllm.loading import Loading
from tandem_connector.vllm.measuring import Measuring
from tandem_connector.vllm.orders import RankReport, StepOrders
from tandem_connector.vllm.overlap import Overlap
from tandem_connector.vllm.status import StatusFile
from tandem_connector.vllm.surroundings import Surroundings
from tandem_connector.vllm.waits import Waits

_TALLY_EVERY: Final = 0.25
"""Seconds between two counts of the tokens that wait to be computed."""


class Stepping:
    """Of one engine; scheduler's thread."""

    def __init__(
        self,
        *,
        requests: Mapping[RequestId, Any],
        exchange: Exchange,
        conduct: Conduct,
        loading: Loading,
        filling: Filling,
        measuring: Measuring,
        draining: Draining,
        ending: Ending,
        surroundings: Surroundings,
        status: StatusFile,
        idle_wait: float,
    ) -> None:
        """Before the first step.

        Args:
            requests: the live `Request`s, kept by the caller.
            exchange: the engine's, as all that follows.
            conduct: takes news and gives orders.
            loading: the requests that wait.
            filling: what steps fill.
            measuring: what steps take.
            draining: whether the engine hands over what it holds.
            ending: whether it ends.
            surroundings: what wakes it.
            status: where it says how it is.
            idle_wait: seconds to sleep at most in an empty step.
        """
        self._requests = requests
        self._exchange = exchange
        self._conduct = conduct
        self._loading = loading
        self._filling = filling
        self._measuring = measuring
        self._draining = draining
        self._ending = ending
        self._surroundings = surroundings
        self._status = status
        self._idle_wait = idle_wait
        self._overlap = Overlap()
        self._waits = Waits()
        self._tallied = 0.0
        self.newest = StepId(0)
        """The last step that was scheduled."""

    def request_came(self) -> None:
        """A new request: vLLM looks at it at once."""
        self._waits.happened()

    def scheduled(self, output: Any) -> StepOrders:
        """A step was scheduled; what the ranks are to do with it."""
        self.newest = StepId(self.newest + 1)
        computes, tells = output.total_num_scheduled_tokens > 0, False
        if not computes and not output.finished_req_ids:
            with self._surroundings.resting():
                rung = self._sleep()
            tells = Ring.RANK in rung
            if rung:
                self._waits.happened()
        now = _now()
        prompt_tokens = self._filling.scheduled(self.newest, output.num_scheduled_tokens)
        if computes:
            for name in output.num_scheduled_tokens:
                self._loading.computes(name)
            self._waits.happened()
            self._measuring.scheduled(self.newest, prompt_tokens, now)
        self._turn(now)
        orders = StepOrders(self.newest, self._conduct.take_orders(), self._loading.finished.take())
        self._overlap.scheduled(self.newest, tells=computes or tells or bool(orders.orders or orders.finished))
        return orders

    def ran(self, reports: Iterable[RankReport]) -> frozenset[RequestId]:
        """A step's output is there, and what the ranks said with it; the requests that need not wait any more."""
        now = _now()
        listed = tuple(reports)
        self._conduct.take_reports(listed, now)
        if listed:
            ran = min(report.step for report in listed)
            self._overlap.seen(ran)
            self._measuring.ran(ran, now)
        # Requests that came while the step ran are not known yet, so nobody can be told that there is none: nothing is due now.
        self._turn(now, ticks=False)
        return self._loading.finished.take_whole()

    def are_needed(self) -> bool:
        """Whether the engine must step although no request is to be computed."""
        now = _now()
        if self._ending.look(now, busy=bool(self._requests)):
            self._conduct.carry_out(now)
        if self._ending.is_over(now):
            return False
        due = self._conduct.next_due()
        if self._is_busy() or self._conduct.expects_ranks or (due is not None and due <= now):
            return True
        if not self._ending.has_begun:
            return False
        # vLLM takes the workers down, which takes seconds. What comes from now on is declined by the network's thread.
        self._surroundings.part()
        return self._is_busy()

    def _sleep(self) -> frozenset[Ring]:
        """An empty step has nothing to do before somebody has something: don't let vLLM spin. Who ended the sleep.

        What only concerns peers is done here, and the ranks sleep on.
        """
        all_wait = all(self._loading.waits(request) for request in self._requests)
        until = _now() + (self._idle_wait if all_wait else min(self._idle_wait, self._waits.take()))
        while self._overlap.may_sleep and not (self._conduct.has_orders or self._loading.finished):
            due = self._next_due()
            now = _now()
            if now >= until or self._ending.is_over(now):
                break
            if not self._surroundings.has_news and (due is None or due > now):
                rung = self._surroundings.wait((until if due is None else min(until, due)) - now)
                if rung - {Ring.NEWS}:
                    return rung
            if self._turn(_now()):
                self._waits.happened()
                break
        return frozenset()

    def _turn(self, now: Seconds, *, ticks: bool = True) -> bool:
        """Take news, and do what is due; whether the scheduler should look at its requests again."""
        again = self._conduct.take_news(now)
        again |= ticks and self._conduct.tick(now)
        self._ending.look(now, busy=bool(self._requests))
        self._conduct.carry_out(now)
        self._status.change(drain=self._draining.stage(busy=bool(self._requests)))
        self._surroundings.set_alarm(self._next_due())
        if now - self._tallied >= _TALLY_EVERY:
            self._tallied = now
            waiting = sum(
                max(0, request.num_prompt_tokens - request.num_computed_tokens) for request in self._requests.values()
            )
            self._exchange.set_waiting_tokens(waiting)
            self._surroundings.set_waiting_tokens(waiting)
        return again

    def _is_busy(self) -> bool:
        return self._surroundings.has_news or self._conduct.has_orders or bool(self._loading.finished)

    def _next_due(self) -> Seconds | None:
        due = (self._conduct.next_due(), self._ending.next_due())
        return min((at for at in due if at is not None), default=None)


def _now() -> Seconds:
    return Seconds(time.monotonic())
