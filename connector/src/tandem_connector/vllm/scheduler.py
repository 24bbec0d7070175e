# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side: what each of vLLM's hooks means for the exchange. On the engine's main thread, but `arrived`."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tandem_connector.contract.messages import Hello
from tandem_connector.contract.prefill import PrefillNote, receipt_params
from tandem_connector.contract.types import EngineId, Role
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockHash, BlockId, FreshBlocks, RequestId, Seconds, StepId
from tandem_connector.exchange.worth import Worth
from tandem_connector.vllm.account import account_of, account_params, receipt_of
from tandem_connector.vllm.adapter import EnginePool, arrival_of, blocks_of, computed_tokens, is_worth_offering
from tandem_connector.vllm.conduct import Conduct
from tandem_connector.vllm.doorbell import Ring
from tandem_connector.vllm.draining import Draining
from tandem_connector.vllm.ending import Ending
from tandem_connector.vllm.journal import Journal
from tandem_connector.vllm.keys import CurveKeys
from tandem_connector.vllm.loading import Loading
from tandem_connector.vllm.measuring import Measuring
from tandem_connector.vllm.metrics import Meter
from tandem_connector.vllm.notes import Notes
from tandem_connector.vllm.orders import RankReport, StepOrders
from tandem_connector.vllm.overlap import Overlap
from tandem_connector.vllm.recording import RecordedExchange
from tandem_connector.vllm.settings import ConnectorSettings, exposable
from tandem_connector.vllm.status import StatusFile
from tandem_connector.vllm.steps import Progress, Scheduled, Steps
from tandem_connector.vllm.surroundings import Surroundings, seal_of
from tandem_connector.vllm.turns import Turn
from tandem_connector.vllm.waits import Waits

_TALLY_EVERY: Final = 0.25
"""Seconds between two counts of the tokens that wait to be computed."""


class SchedulerSide:
    """One engine's. It is ready when `bind` and then `start` were called."""

    def __init__(
        self,
        me: EngineId,
        settings: ConnectorSettings,
        surroundings: Surroundings,
        keys: CurveKeys | None,
        *,
        block_size: int,
        hash_algorithm: str,
        end_within: float,
        longest: int,
    ) -> None:
        """Without vLLM's block pool yet.

        Args:
            me: this engine.
            settings: its settings.
            surroundings: given to this for good.
            keys: the resource's.
            block_size: tokens per block.
            hash_algorithm: vLLM's, by its name.
            end_within: seconds that vLLM gives itself to end.
            longest: most tokens of a request.
        """
        self._me = me
        self._settings = settings
        self._surroundings = surroundings
        self._block_size = block_size
        self._hash_algorithm = hash_algorithm
        self._end_within = end_within
        self._longest = longest
        self._status = StatusFile(settings.status_file)
        self._asks = settings.peers_file is not None and settings.role is Role.DECODE
        self._asked: set[RequestId] = set()
        self._steps = Steps(block_size)
        self._step = StepId(0)
        self._overlap = Overlap()
        self._waits = Waits()
        self._requests: dict[RequestId, Any] = {}
        self._tallied = 0.0
        self._meter = Meter()
        self._notes = Notes(me, settings, seal_of(keys), self._meter, block_size)
        self._idle_wait = 0.0

    # -- beginning --------------------------------------------------------------------------------------------------

    def bind(self, manager: Any) -> None:
        """The engine's `KVCacheManager` is there."""
        self._manager = manager
        self._pool = EnginePool(
            manager.block_pool, self._block_size, self._settings.landing_share, self._hash_algorithm
        )
        settings = ExchangeSettings(
            block_size=self._block_size,
            landing_ttl=Seconds(self._settings.landing_deadline),
            offer_every=self._settings.offer_every,
            quarantine_blocks=int(self._pool.blocks * self._settings.quarantine_share),
            transport_bound=Seconds(self._settings.transport_bound),
            exposed_blocks=exposable(self._pool.blocks, -(-self._longest // self._block_size)),
        )
        self._journal = Journal(self._settings.journal) if self._settings.journal is not None else None
        if self._journal is None:
            self._exchange = Exchange(self._me, self._pool, settings)
        else:
            self._exchange = RecordedExchange(self._me, self._pool, settings, self._journal)
        self._pool.before_reset(self._before_reset)
        self._ending = Ending(self._exchange, lambda: self._surroundings.engine_ends, self._end_within)
        self._draining = Draining(self._exchange, self._pool.cached)

    def start(self, hello: Hello, *, block_bytes: int, idle_wait: float, model: str) -> None:
        """All ranks have told of their memory.

        Args:
            hello: what peers are told of it.
            block_bytes: of one block on all ranks.
            idle_wait: seconds to sleep at most in an empty step.
            model: the served model's name.

        Raises:
            ListenError: the engine can't listen for its peers.
        """
        self._block_bytes = block_bytes
        self._idle_wait = idle_wait
        self._surroundings.start(hello, block_size=self._block_size, model=model)
        worth = Worth(self._block_size, Seconds(self._settings.estimate_age))
        self._measuring = Measuring(worth)
        self._loading = Loading(
            self._exchange,
            self._surroundings.asker,
            self._asked,
            worth,
            hold=self._settings.landing_deadline,
            offers=self._settings.reverse.pushes,
            fetches=self._settings.reverse.fetches,
        )
        self._conduct = Conduct(
            self._exchange,
            self._loading,
            self._measuring,
            self._draining,
            self._surroundings,
            status=self._status,
            ranks=len(hello.ranks),
        )

    def close(self) -> None:
        """The engine ends."""
        self._surroundings.close()

    # -- requests ---------------------------------------------------------------------------------------------------

    def arrived(self, request: Any) -> None:
        """A request is on its way to the scheduler; on vLLM's input thread."""
        if self._journal is not None:
            self._journal.write("arrived", {"request": request.request_id})
        self._ask(request)

    def _ask(self, request: Any) -> None:
        """Have a prefill asked for, if it is worth it; on the main thread when the input thread couldn't be seen."""
        if not self._asks or request.request_id in self._asked:
            return
        arrival = arrival_of(request, self._block_size)
        self._asked.add(arrival.request)
        self._surroundings.arrived(arrival, self._pool.prefix(arrival.hashes))

    def on_new_request(self, request: Any) -> None:
        """A request reached the scheduler."""
        self._ask(request)
        self._waits.happened()
        name, now = RequestId(request.request_id), _now()
        # What was offered before the request came may be what it lacks: no longer in time when it is scheduled.
        self._conduct.take_news(now)
        prompt = [BlockHash(each) for each in request.block_hashes]
        self._requests[name] = request
        self._steps.arrived(name, request.block_hashes, request.num_prompt_tokens)
        self._learn(request, 0, len(prompt))
        self._exchange.request_produces(name, prompt)
        source = self._notes.source_of(request, prompt, self._conduct.connected, now)
        self._loading.arrived(name, prompt, now, asked=name in self._asked, source=source)
        self._conduct.carry_out(now)

    def _learn(self, request: Any, start: int, stop: int) -> None:
        if self._pool.publishes or self._conduct.any_publishes:
            self._pool.learn(request, start, stop)

    def matched(self, request: Any, computed_tokens: int) -> int | None:
        """How many tokens the request is to wait for; None: it can't be said yet."""
        now = _now()
        self._take_decisions(now)
        blocks = self._loading.matched(
            RequestId(request.request_id),
            computed_tokens // self._block_size,
            (request.num_tokens - 1) // self._block_size,
            now,
        )
        return None if blocks is None else blocks * self._block_size

    def allocated(self, request: Any, blocks: Sequence[Any]) -> None:
        """The request has these blocks (of all its tokens), and waits."""
        now = _now()
        self._loading.allocated(RequestId(request.request_id), [BlockId(block.block_id) for block in blocks], now)
        self._conduct.carry_out(now)

    def request_finished(self, request: Any) -> dict[str, object] | None:
        """A request is over; what its response is to say of it."""
        name, now = RequestId(request.request_id), _now()
        computed, offers = computed_tokens(request), is_worth_offering(request)
        if offers:
            self._filled(self._steps.rest(name, computed, self._blocks_of))
        self._requests.pop(name, None)
        progress = self._steps.ended(name)
        self._exchange.request_ended(name, now, offer=offers)
        turn = self._loading.request_ended(name, now)
        hashes = [BlockHash(each) for each in request.block_hashes[: computed // self._block_size]]
        self._draining.request_ended(hashes, now)
        self._conduct.carry_out(now)
        if name in self._asked:
            self._asked.discard(name)
            if self._surroundings.asker is not None:
                self._surroundings.asker.ended(name, hashes)
        note = self._notes.ended(name)
        if turn is None or progress is None:
            return None
        return self._account(request, turn, progress, note)

    def _account(
        self, request: Any, turn: Turn, progress: Progress, note: PrefillNote | None
    ) -> dict[str, object] | None:
        account = account_of(turn, progress, request.num_output_tokens, self._block_size)
        self._meter.turn_ended(account)
        if self._journal is not None:
            self._journal.write("turn", {"request": turn.request, **msgspec.structs.asdict(account)})
        if note is not None:
            return receipt_params(receipt_of(account, self._me))
        return account_params(account) if self._asks else None

    # -- steps ------------------------------------------------------------------------------------------------------

    def build_step(self, output: Any) -> StepOrders:
        """A step was scheduled; what the ranks are to do with it."""
        self._step = StepId(self._step + 1)
        computes, tells = output.total_num_scheduled_tokens > 0, False
        if not computes and not output.finished_req_ids:
            with self._surroundings.resting():
                rung = self._sleep()
            tells = Ring.RANK in rung
            if rung:
                self._waits.happened()
        now = _now()
        fresh = self._steps.scheduled(self._scheduled(output), self._blocks_of)
        if computes:
            self._waits.happened()
            self._measuring.scheduled(self._step, self._steps.prompt_tokens, now)
        self._filled(fresh)
        self._turn(now)
        orders = StepOrders(self._step, self._conduct.take_orders(), self._loading.take_finished())
        self._overlap.scheduled(self._step, tells=computes or tells or bool(orders.orders or orders.finished))
        return orders

    def _filled(self, fresh: Sequence[FreshBlocks]) -> None:
        """The newest step, or one before it, fills these."""
        for blocks in fresh:
            self._learn(self._requests[blocks.request], blocks.position, blocks.position + len(blocks.hashes))
        self._exchange.step_scheduled(self._step, fresh)

    def _sleep(self) -> frozenset[Ring]:
        """An empty step has nothing to do before somebody has something: don't let vLLM spin. Who ended the sleep.

        What only concerns peers is done here, and the ranks sleep on.
        """
        all_wait = all(self._loading.waits(request) for request in self._requests)
        until = _now() + (self._idle_wait if all_wait else min(self._idle_wait, self._waits.take()))
        while self._overlap.may_sleep and not (self._conduct.has_orders or self._loading.has_finished):
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

    def _scheduled(self, output: Any) -> Iterable[Scheduled]:
        for name, tokens in output.num_scheduled_tokens.items():
            request = self._requests.get(name)
            self._loading.computes(name)
            if request is not None:
                yield Scheduled(name, request.num_computed_tokens, tokens)

    def _blocks_of(self, request: RequestId, start: int, stop: int) -> Sequence[BlockId]:
        return [BlockId(block.block_id) for block in blocks_of(self._manager, request)[start:stop]]

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

    def _take_decisions(self, now: Seconds) -> None:
        """In the midst of scheduling: names that the step is giving mustn't be looked up, so messages have to wait."""
        self._conduct.take_decisions(now)
        self._conduct.carry_out(now)

    def take_reports(self, reports: Iterable[RankReport]) -> frozenset[RequestId]:
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
        return self._loading.take_whole()

    def _is_busy(self) -> bool:
        return self._surroundings.has_news or self._conduct.has_orders or self._loading.has_finished

    def has_pending_work(self) -> bool:
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

    def _next_due(self) -> Seconds | None:
        due = (self._conduct.next_due(), self._ending.next_due())
        return min((at for at in due if at is not None), default=None)

    def news(self) -> dict[str, Any] | None:
        """What is to be added to the metrics."""
        return self._meter.news(self._conduct.state(self._block_bytes))

    def _before_reset(self) -> None:
        now = _now()
        self._exchange.reset(now)
        self._conduct.carry_out(now)


def _now() -> Seconds:
    return Seconds(time.monotonic())
