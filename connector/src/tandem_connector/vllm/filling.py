# SPDX-License-Identifier: Apache-2.0
"""Which blocks this engine's steps fill: told to the exchange, with what their names are derived from where somebody publishes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import BlockHash, BlockId, FreshBlocks, RequestId, StepId
from tandem_connector.vllm.adapter import EnginePool, blocks_of, computed_tokens
from tandem_connector.vllm.steps import Progress, Scheduled, Steps


class Filling:
    """Of all live requests; scheduler's thread."""

    def __init__(
        self,
        requests: Mapping[RequestId, Any],
        exchange: Exchange,
        pool: EnginePool,
        manager: Any,
        *,
        block_size: int,
        peers_publish: Callable[[], bool],
    ) -> None:
        """Of no step yet.

        Args:
            requests: the live `Request`s, kept by the caller.
            exchange: the engine's.
            pool: the engine's.
            manager: vLLM's `KVCacheManager`.
            block_size: tokens per block.
            peers_publish: whether some peer publishes KV events.
        """
        self._requests = requests
        self._exchange = exchange
        self._pool = pool
        self._manager = manager
        self._steps = Steps(block_size)
        self._peers_publish = peers_publish

    def arrived(self, request: Any) -> Sequence[BlockHash]:
        """A request is new; the names of its prompt's full blocks, which it will fill."""
        name, prompt = RequestId(request.request_id), [BlockHash(each) for each in request.block_hashes]
        self._steps.arrived(name, request.block_hashes, request.num_prompt_tokens)
        self._learn(request, 0, len(prompt))
        self._exchange.request_produces(name, prompt)
        return prompt

    def scheduled(self, step: StepId, tokens: Mapping[str, int]) -> int:
        """A step computes so many tokens of each of these requests; how many of them are prompts'."""
        self._tell(step, self._steps.scheduled(self._known(tokens), self._blocks_of))
        return self._steps.prompt_tokens

    def rest(self, request: Any, step: StepId) -> None:
        """A request ends after this step; what of it was filled and not told yet is to be offered."""
        name = RequestId(request.request_id)
        self._tell(step, self._steps.rest(name, computed_tokens(request), self._blocks_of))

    def progress(self, request: RequestId) -> Progress | None:
        """How far a live request's blocks have come."""
        return self._steps.progress(request)

    def ended(self, request: RequestId) -> Progress | None:
        """The request is over."""
        return self._steps.ended(request)

    def _known(self, tokens: Mapping[str, int]) -> Iterable[Scheduled]:
        for name, count in tokens.items():
            request = self._requests.get(RequestId(name))
            if request is not None:
                yield Scheduled(RequestId(name), request.num_computed_tokens, count)

    def _tell(self, step: StepId, fresh: Sequence[FreshBlocks]) -> None:
        for blocks in fresh:
            self._learn(self._requests[blocks.request], blocks.position, blocks.position + len(blocks.hashes))
        self._exchange.step_scheduled(step, fresh)

    def _learn(self, request: Any, start: int, stop: int) -> None:
        if self._pool.publishes or self._peers_publish():
            self._pool.learn(request, start, stop)

    def _blocks_of(self, request: RequestId, start: int, stop: int) -> Sequence[BlockId]:
        return [BlockId(block.block_id) for block in blocks_of(self._manager, request)[start:stop]]
