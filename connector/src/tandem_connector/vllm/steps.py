# SPDX-License-Identifier: Apache-2.0
"""Which blocks a scheduled step fills, request by request."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tandem_connector.exchange.types import BlockHash, BlockId, FreshBlocks, RequestId


@dataclass(slots=True)
class Progress:
    """How far one request's blocks have been announced as filled."""

    request: RequestId
    hashes: Sequence[BlockHash]
    """Of all full blocks, growing with the output."""
    prompt: int
    """Tokens of the prompt."""
    announced: int | None = None
    """Blocks that were in the cache, or announced; None before the first step."""
    computed: int = 0
    """Prompt tokens computed here."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What a step does for one request."""

    request: RequestId
    before: int
    """Tokens computed before the step, steps in flight included."""
    tokens: int
    """Tokens that it computes."""


BlocksOf = Callable[[RequestId, int, int], Sequence[BlockId]]
"""The block ids of a request from one index to another."""


class Steps:
    """All live requests."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._requests: dict[RequestId, Progress] = {}
        self.prompt_tokens = 0
        """Prompt tokens that the last step computes."""

    def arrived(self, request: RequestId, hashes: Sequence[BlockHash], prompt: int) -> None:
        """A request is new; `hashes` is the engine's own growing list."""
        self._requests[request] = Progress(request, hashes, prompt)

    def progress(self, request: RequestId) -> Progress | None:
        """How far a live request has come."""
        return self._requests.get(request)

    def ended(self, request: RequestId) -> Progress | None:
        """The request is over."""
        return self._requests.pop(request, None)

    def scheduled(self, step: Iterable[Scheduled], blocks_of: BlocksOf) -> list[FreshBlocks]:
        """What the step fills and has a name.

        The name of a block is known with its last token. Where steps overlap, that is after the step which fills the
        block was scheduled; it is then announced with the next one: later than need be, never earlier.
        """
        fresh = []
        self.prompt_tokens = 0
        for each in step:
            progress = self._requests.get(each.request)
            if progress is None:
                continue
            of_prompt = max(0, min(each.before + each.tokens, progress.prompt) - min(each.before, progress.prompt))
            progress.computed += of_prompt
            self.prompt_tokens += of_prompt
            held = each.before // self._block_size
            # Below what was announced: it was preempted, and computes again. Above, the first time: cached or received.
            start = held if progress.announced is None else min(progress.announced, held)
            stop = min((each.before + each.tokens) // self._block_size, len(progress.hashes))
            progress.announced = max(start, stop)
            if stop > start:
                hashes = tuple(progress.hashes[start:stop])
                blocks = tuple(blocks_of(each.request, start, stop))
                fresh.append(FreshBlocks(each.request, start, hashes, blocks))
        return fresh

    def rest(self, request: RequestId, computed: int, blocks_of: BlocksOf) -> list[FreshBlocks]:
        """What of a request that ends was filled, but by steps that were scheduled before its name was known.

        Where steps overlap the last token of a block may be known only when no other step of the request follows.

        Args:
            request: one that came.
            computed: its tokens that have KV.
            blocks_of: see `BlocksOf`.
        """
        progress = self._requests.get(request)
        if progress is None or progress.announced is None:
            return []
        start, stop = progress.announced, min(computed // self._block_size, len(progress.hashes))
        if stop <= start:
            return []
        return [FreshBlocks(request, start, tuple(progress.hashes[start:stop]), tuple(blocks_of(request, start, stop)))]
