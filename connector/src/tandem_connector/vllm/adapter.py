# SPDX-License-Identifier: Apache-2.0
"""What is used of vLLM besides its public connector interface. Read against vLLM 0.32.0.

For KV events see `kv_events`, for the engine's process `engine_process`.

* `BlockPool`: `cached_block_hash_to_block`, `_insert_block_hash`, `touch`, `free_blocks`, `get_new_blocks`, `blocks`,
  `num_gpu_blocks`, `get_num_free_blocks`, `reset_prefix_cache` (`v1/core/block_pool.py`), and the form of its keys,
  `make_block_hash_with_group_id` and `get_block_hash` (`v1/core/kv_cache_utils.py`): to find, reference, take and name blocks.
* `BlockPool.free_block_queue.get_all_free_blocks`, `KVCacheBlock.block_hash` and `.block_hash_num_tokens`
  (`v1/core/kv_cache_utils.py`): what is cached, in the order in which it is to be evicted.
* `KVCacheManager.block_pool`, `.get_blocks`, `KVCacheBlocks.blocks` (`v1/core/kv_cache_manager.py`): a request's blocks.
* `Request` (`v1/request.py`): its prompt, the names of its blocks, what it asks for, how much of it is computed.
* `Scheduler.schedule` (`v1/core/sched/scheduler.py`) calls `build_connector_meta` before `_update_after_schedule`, so that
  `num_computed_tokens` is that before the step. `_update_from_kv_xfer_finished` calls `update_connector_output` before it
  looks at what has finished, so that requests can be added there.
* `Scheduler._request_blocks_can_be_freed` (same file): where steps overlap, vLLM gives the blocks of a request that ended back to
  the pool only when the steps in flight, which may still write into them, have run; it does so for `kv_both`. So a block that
  is taken from the pool can be given to a peer at once.

The block pool has references for requests only. The exchange's own are added by `touch` and taken by `free_blocks`, as
vLLM's own for a request are.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import vllm
from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.kv_cache_utils import get_block_hash, make_block_hash_with_group_id

from tandem_connector.asking.types import Arrival, Obstacle
from tandem_connector.exchange.types import BlockHash, BlockId, Derivation, OfferedRun, RequestId
from tandem_connector.vllm.kv_events import KvEvents, learn
from tandem_connector.vllm.lineage import Lineage

SUPPORTED: Final = "0.32."
"""Versions of vLLM that this was read against and tested with, by their beginning."""
_NEEDED: Final = {
    "vllm.v1.core.block_pool.BlockPool": (
        *("get_new_blocks", "touch", "free_blocks", "_insert_block_hash", "reset_prefix_cache", "get_num_free_blocks"),
    ),
    "vllm.v1.core.block_pool.BlockHashToBlockMap": ("get_one_block",),
    "vllm.v1.core.kv_cache_utils.FreeKVCacheBlockQueue": ("get_all_free_blocks",),
    "vllm.v1.core.kv_cache_utils.KVCacheBlock": ("block_hash", "block_hash_num_tokens"),
    "vllm.v1.core.kv_cache_manager.KVCacheManager": ("get_blocks",),
    "vllm.v1.core.sched.scheduler.Scheduler": ("_request_blocks_can_be_freed",),
    "vllm.v1.engine.core.EngineCoreProc": ("process_input_sockets", "_handle_client_request", "is_running"),
}


class VersionError(Exception):
    """This vLLM is not the one that the connector was written for; the text says which is, and what is missing."""


def check_version() -> None:
    """Pass on a vLLM that has all that is used of it.

    Raises:
        VersionError: it is another version, or lacks something.
    """
    version = str(vllm.__version__)
    lacking = [f"{path}.{name}" for path, names in _NEEDED.items() for name in names if not _has(path, name)]
    if not version.startswith(SUPPORTED) or lacking:
        what = f"; it lacks {', '.join(lacking)}" if lacking else ""
        raise VersionError(
            f"TandemConnector works with vLLM {SUPPORTED}x, and this is {version}{what}; "
            "use an engine image of that version, or a connector for this one"
        )


def _has(path: str, name: str) -> bool:
    module, _, kind = path.rpartition(".")
    try:
        return hasattr(getattr(__import__(module, fromlist=[kind]), kind), name)
    except (ImportError, AttributeError):
        return False


class EnginePool:
    """vLLM's block pool as the exchange's (`exchange.types.Pool`). Scheduler's thread only, except `prefix`."""

    def __init__(self, pool: Any, block_size: int, landing_share: float, hash_algorithm: str) -> None:
        """Wrap `BlockPool`.

        Args:
            pool: vLLM's.
            block_size: tokens per block.
            landing_share: the part of the free blocks that may be held for what peers offer.
            hash_algorithm: what names are made with, by vLLM's name of it.
        """
        self._pool = pool
        self._block_size = block_size
        self._landing_share = landing_share
        self._lineage = Lineage(2 * pool.num_gpu_blocks, lambda name: self.lookup(name) is not None)
        self._events = KvEvents(pool, block_size, hash_algorithm) if pool.enable_kv_cache_events else None

    def lookup(self, block_hash: BlockHash) -> BlockId | None:
        """See `Pool.lookup`. Names of steps that won't run can't be: the scheduling policy that makes them is refused."""
        block = self._pool.cached_block_hash_to_block.get_one_block(make_block_hash_with_group_id(block_hash, 0))
        return None if block is None or block.is_null else BlockId(block.block_id)

    def prefix(self, hashes: Iterable[BlockHash]) -> int:
        """How many of these, from the first on, are in the cache. From any thread: an answer of a moment ago."""
        length = 0
        for block_hash in hashes:
            try:
                if self.lookup(block_hash) is None:
                    break
            except (RuntimeError, StopIteration):  # two blocks had the name, and one was freed just now: it is there
                pass
            length += 1
        return length

    def pin(self, blocks: Sequence[BlockId]) -> None:
        """See `Pool.pin`."""
        self._pool.touch([self._pool.blocks[block] for block in blocks])

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        """See `Pool.unpin`."""
        self._pool.free_blocks([self._pool.blocks[block] for block in blocks])

    def room(self, landing: int) -> int:
        """See `Pool.room`."""
        return max(0, int((self._pool.get_num_free_blocks() + landing) * self._landing_share) - landing)

    def take(self, count: int) -> tuple[BlockId, ...] | None:
        """See `Pool.take`."""
        if count > self._pool.get_num_free_blocks():
            return None
        return tuple(BlockId(block.block_id) for block in self._pool.get_new_blocks(count))

    def commit(self, block_hash: BlockHash, block: BlockId, position: int, derivation: Derivation | None) -> bool:
        """See `Pool.commit`."""
        if self.lookup(block_hash) is not None:
            return False
        key = make_block_hash_with_group_id(block_hash, 0)
        self._pool._insert_block_hash(  # noqa: SLF001 - the only way to name a block that no request owns
            key, self._pool.blocks[block], num_tokens=(position + 1) * self._block_size
        )
        if self._events is not None and derivation is not None and self._events.stored(block_hash, derivation):
            self._lineage.learn(block_hash, derivation)
        return True

    def derivations(self, hashes: Sequence[BlockHash]) -> tuple[Derivation, ...] | None:
        """See `Pool.derivations`."""
        return self._lineage.of(hashes)

    def learn(self, request: Any, start: int, stop: int) -> None:
        """Remember what the names of some of a `Request`'s full blocks are derived from, by index."""
        learn(self._lineage, request, start, stop, self._block_size)
        if self._events is not None:
            self._events.saw(request)

    @property
    def publishes(self) -> bool:
        """Whether vLLM publishes KV events of this pool."""
        return self._events is not None

    def cached(self) -> list[OfferedRun]:
        """What is cached and nobody references, most recently used first.

        A request's blocks are freed from its last to its first, so that the last is evicted first: backwards they are in order.
        """
        runs: list[tuple[int, list[BlockHash]]] = []
        for block in reversed(self._pool.free_block_queue.get_all_free_blocks()):
            position, part = divmod(block.block_hash_num_tokens or 0, self._block_size)
            if block.block_hash is None or part or not position:
                continue
            position -= 1
            if not runs or position != runs[-1][0] + len(runs[-1][1]):
                runs.append((position, []))
            runs[-1][1].append(BlockHash(get_block_hash(block.block_hash)))
        return [OfferedRun(position, tuple(hashes)) for position, hashes in runs]

    @property
    def blocks(self) -> int:
        """Blocks in the pool."""
        return int(self._pool.num_gpu_blocks)

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody references, cached ones included."""
        return int(self._pool.get_num_free_blocks())

    def before_reset(self, then: Callable[[], None]) -> None:
        """Call `then` each time before the prefix cache is reset, so that it finds no reference of the exchange."""
        reset = self._pool.reset_prefix_cache

        def resetting() -> bool:
            then()
            return bool(reset())

        self._pool.reset_prefix_cache = resetting


def arrival_of(request: Any, block_size: int) -> Arrival:
    """What asking must know of a `Request`."""
    tokens = request.prompt_token_ids or []
    sampling = request.sampling_params
    obstacles = {
        Obstacle.MULTIMODAL: bool(request.mm_features),
        Obstacle.PROMPT_EMBEDDINGS: request.prompt_embeds is not None or not tokens,
        Obstacle.PROMPT_LOGPROBS: sampling is not None and sampling.prompt_logprobs is not None,
        Obstacle.POOLING: request.pooling_params is not None,
        Obstacle.SKIPS_CACHE: bool(request.skip_reading_prefix_cache),
        Obstacle.GROWING_PROMPT: bool(request.resumable),
    }
    return Arrival(
        request=RequestId(request.request_id),
        prompt=tokens,
        hashes=tuple(BlockHash(each) for each in request.block_hashes[: len(tokens) // block_size]),
        obstacles=frozenset(obstacle for obstacle, is_there in obstacles.items() if is_there),
        lora=request.lora_request.lora_name if request.lora_request is not None else None,
        salt=request.cache_salt,
        priority=request.priority,
        trace=dict(request.trace_headers or {}),
    )


def is_worth_offering(request: Any) -> bool:
    """Whether the next turn may begin with all that a finished `Request` computed.

    Not if it failed, or a client hung up before the answer began. But an answer that ends by a stop string is aborted, too,
    by vLLM's front end, which alone knows the text (`OutputProcessor.process_outputs`, `reqs_to_abort`).
    """
    match request.status.name:
        case "FINISHED_STOPPED" | "FINISHED_LENGTH_CAPPED":
            return True
        case "FINISHED_ABORTED":
            return bool(request.num_output_tokens)
        case _:
            return False


def may_end_by_its_text(request: Any) -> bool:
    """Whether the answer to a `Request` may end by a stop string, and is given as a whole.

    Then vLLM's front end makes the response of the output with which the string was complete, before the scheduler hears of the end.
    """
    sampling = request.sampling_params
    return sampling is not None and bool(sampling.stop) and sampling.output_kind is RequestOutputKind.FINAL_ONLY


def computed_tokens(request: Any) -> int:
    """How many of a finished `Request`'s tokens have KV; without those that a step in flight may still compute for nothing."""
    return int(request.num_computed_tokens - request.num_output_placeholders)


def blocks_of(manager: Any, request: RequestId) -> Sequence[Any]:
    """The `KVCacheBlock`s of a request, in the order of its tokens; of the only KV cache group."""
    blocks: Sequence[Any] = manager.get_blocks(request).blocks[0]
    return blocks


def hash_seed() -> str:
    """What block names are seeded with: vLLM's fixed default, unless `PYTHONHASHSEED` is set."""
    return os.environ.get("PYTHONHASHSEED", "default")
