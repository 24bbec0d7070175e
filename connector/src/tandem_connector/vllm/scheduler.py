# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side: what each of vLLM's hooks means for the exchange. On the engine's main thread, but `arrived`."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from tandem_connector.contract.messages import Hello
from tandem_connector.contract.prefill import PrefillNote, receipt_params
from tandem_connector.contract.types import EngineId, Role
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import BlockHash, BlockId, RequestId, Seconds
from tandem_connector.exchange.worth import Worth
from tandem_connector.vllm.account import account_of, account_params, receipt_of
from tandem_connector.vllm.adapter import (
    EnginePool,
    arrival_of,
    computed_tokens,
    is_worth_offering,
    may_end_by_its_text,
)
from tandem_connector.vllm.conduct import Conduct
from tandem_connector.vllm.draining import Draining
from tandem_connector.vllm.ending import Ending
from tandem_connector.vllm.fabric import Fabric
from tandem_connector.vllm.filling import Filling
from tandem_connector.vllm.journal import Journal
from tandem_connector.vllm.loading import Loading
from tandem_connector.vllm.measuring import Measuring
from tandem_connector.vllm.metrics import Meter
from tandem_connector.vllm.notes import Notes
from tandem_connector.vllm.peer_counts import PeerCounts
from tandem_connector.vllm.recording import RecordedExchange
from tandem_connector.vllm.settings import ConnectorSettings, exposable
from tandem_connector.vllm.status import StatusFile
from tandem_connector.vllm.stepping import Stepping
from tandem_connector.vllm.steps import Progress
from tandem_connector.vllm.surroundings import Surroundings
from tandem_connector.vllm.turns import Turn


class SchedulerSide:
    """One engine's. It is ready when `bind` and then `start` were called."""

    def __init__(
        self,
        me: EngineId,
        settings: ConnectorSettings,
        surroundings: Surroundings,
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
        self._requests: dict[RequestId, Any] = {}
        self._open_ended: set[RequestId] = set()
        """Requests whose answers vLLM's front end may end."""
        self._meter = Meter()
        self._notes = Notes(me, settings, lambda: surroundings.seal, self._meter, block_size)

    steps: Stepping
    """What is done with the engine's steps."""

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

    def start(self, hello: Hello, *, block_bytes: int, idle_wait: float, fabric: Fabric, model: str) -> None:
        """All ranks have told of their memory.

        Args:
            hello: what peers are told of it.
            block_bytes: of one block on all ranks.
            idle_wait: seconds to sleep at most in an empty step.
            fabric: over what the ranks exchange. They are of one container, with one environment.
            model: the served model's name.

        Raises:
            ListenError: the engine can't listen for its peers.
        """
        self._block_bytes = block_bytes
        self._surroundings.start(hello, block_size=self._block_size, model=model)
        worth = Worth(self._block_size, Seconds(self._settings.estimate_age))
        measuring = Measuring(worth)
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
            measuring,
            self._draining,
            self._surroundings,
            status=self._status,
            ranks=len(hello.ranks),
            fabric=fabric,
            peer_counts=PeerCounts(self._settings.role, self._settings.reverse),
        )
        self._filling = Filling(
            self._requests,
            self._exchange,
            self._pool,
            self._manager,
            block_size=self._block_size,
            peers_publish=lambda: self._conduct.peering.any_publishes,
        )
        self.steps = Stepping(
            requests=self._requests,
            exchange=self._exchange,
            conduct=self._conduct,
            loading=self._loading,
            filling=self._filling,
            measuring=measuring,
            draining=self._draining,
            ending=self._ending,
            surroundings=self._surroundings,
            status=self._status,
            idle_wait=idle_wait,
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
        self.steps.request_came()
        name, now = RequestId(request.request_id), _now()
        # What was offered before the request came may be what it lacks: no longer in time when it is scheduled.
        self._conduct.take_news(now)
        self._requests[name] = request
        if self._asks and may_end_by_its_text(request):
            self._open_ended.add(name)
        prompt = self._filling.arrived(request)
        source = self._notes.source_of(request, prompt, self._conduct.peering.connected, now)
        self._loading.arrived(name, prompt, now, asked=name in self._asked, source=source)
        self._conduct.carry_out(now)

    def matched(self, request: Any, computed_tokens: int) -> int | None:
        """How many tokens the request is to wait for; None: it can't be said yet."""
        now = _now()
        # In the midst of scheduling: names that the step is giving mustn't be looked up, so messages have to wait.
        self._conduct.take_decisions(now)
        self._conduct.carry_out(now)
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
        offers, asked = is_worth_offering(request), name in self._asked
        if offers:
            self._filling.rest(request, self.steps.newest)
        self._requests.pop(name, None)
        self._open_ended.discard(name)
        progress = self._filling.ended(name)
        self._exchange.request_ended(name, now, offer=offers)
        turn = self._loading.request_ended(name, now)
        if asked or self._draining.hands_over:
            full = computed_tokens(request) // self._block_size
            hashes = [BlockHash(each) for each in request.block_hashes[:full]]
            self._draining.request_ended(hashes, now)
            if asked and self._surroundings.asker is not None:
                self._surroundings.asker.ended(name, hashes)
        self._asked.discard(name)
        self._conduct.carry_out(now)
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

    def params_so_far(self, request: str) -> dict[str, object] | None:
        """What a response is to say of the request if its answer ends here, by a stop string; None if it can't."""
        name = RequestId(request)
        if name not in self._open_ended:
            return None
        turn, progress = self._loading.turn(name), self._filling.progress(name)
        if turn is None or progress is None:
            return None
        output = self._requests[name].num_output_tokens
        return account_params(account_of(turn, progress, output, self._block_size))

    # -- the whole --------------------------------------------------------------------------------------------------

    def news(self) -> dict[str, Any] | None:
        """What is to be added to the metrics."""
        return self._meter.news(self._conduct.state(self._block_bytes, _now()))

    def _before_reset(self) -> None:
        now = _now()
        self._exchange.reset(now)
        self._conduct.carry_out(now)


def _now() -> Seconds:
    return Seconds(time.monotonic())
