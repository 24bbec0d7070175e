# SPDX-License-Identifier: Apache-2.0
"""vLLM's KV events of blocks that no request of this engine computed or waited for. Read against vLLM 0.32.0.

vLLM announces a block when it puts a request's blocks into the prefix cache (`BlockPool.cache_full_blocks`), and when it
takes a name away. A block that peers wrote unasked for gets its name from the exchange, so its `BlockStored` is made
here, and put where vLLM's own are (`BlockPool.kv_event_queue`): they are published in the order in which they happened.

Used besides that of `v1/core/kv_cache_utils.py`: `generate_block_hash_extra_keys` and `hash_block_tokens`, what names are
derived from and how; `to_event_extra_keys` and `maybe_convert_block_hash`, the form in which events have both.
"""

import logging
from typing import Any, TypeAlias

import msgspec
from vllm.distributed.kv_events import BlockStored
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import (
    generate_block_hash_extra_keys,
    hash_block_tokens,
    maybe_convert_block_hash,
    to_event_extra_keys,
)

from tandem_connector.contract.messages import MAX_KEYS
from tandem_connector.exchange.types import BlockHash, Derivation
from tandem_connector.vllm.lineage import Lineage

_log = logging.getLogger(__name__)
_Keys: TypeAlias = tuple[tuple[Any, ...], ...]
"""vLLM's extra keys of one block: numbers, texts and bytes, each key tagged with its kind."""


def learn(lineage: Lineage, request: Any, start: int, stop: int, block_size: int) -> None:
    """Remember what the names of some of a `Request`'s full blocks are derived from, by index from `start` to `stop`."""
    image = 0
    for index in range(start, stop):
        name = BlockHash(request.block_hashes[index])
        if name in lineage:
            continue
        begin, end = index * block_size, (index + 1) * block_size
        keys, image = generate_block_hash_extra_keys(request, begin, end, image)
        packed = msgspec.msgpack.encode(keys) if keys else b""
        if len(packed) <= MAX_KEYS:
            parent = BlockHash(request.block_hashes[index - 1]) if index else None
            lineage.learn(name, Derivation(parent, tuple(request.all_token_ids[begin:end]), packed))


class KvEvents:
    """Announces blocks of one engine's pool, if vLLM was told to publish KV events."""

    def __init__(self, pool: Any, block_size: int, hash_algorithm: str) -> None:
        """Of this `BlockPool`; the algorithm is that of `--prefix-caching-hash-algo`."""
        self._pool = pool
        self._block_size = block_size
        self._hash = get_hash_fn_by_name(hash_algorithm)
        self._adapters: dict[str, int] = {}

    def saw(self, request: Any) -> None:
        """A `Request` is here. The number of its LoRA adapter, which events have, is this engine's own."""
        if request.lora_request is not None:
            self._adapters[request.lora_request.lora_name] = request.lora_request.adapter_id

    def stored(self, name: BlockHash, derivation: Derivation) -> bool:
        """Announce a block that has just got its name; False if the name is not derived from what the peer said."""
        try:
            keys = _unpacked(derivation.keys)
            right = hash_block_tokens(self._hash, derivation.parent, derivation.tokens, keys) == name
        except (ValueError, RecursionError):
            right = False
        if not right:
            _log.warning("kv_event_withheld block=%s why=its name is not derived from what the peer said", name.hex())
            return False
        adapter = next((str(key[1]) for key in keys or () if key[0] == "lora"), None)
        self._pool.kv_event_queue.append(
            BlockStored(
                block_hashes=[maybe_convert_block_hash(name)],
                parent_block_hash=maybe_convert_block_hash(derivation.parent) if derivation.parent else None,
                token_ids=list(derivation.tokens),
                block_size=self._block_size,
                lora_id=self._adapters.get(adapter) if adapter is not None else None,
                medium=self._pool.medium,
                lora_name=adapter,
                extra_keys=to_event_extra_keys([keys]),
                group_idx=0,
            )
        )
        return True


def _unpacked(packed: bytes) -> _Keys | None:
    """VLLM's extra keys as `learn` packed them.

    Raises:
        ValueError: somebody else did.
    """
    if not packed:
        return None
    keys: _Keys = msgspec.msgpack.decode(packed, type=_Keys)
    parts_are_right = all(isinstance(part, str | int | bytes) for key in keys for part in key)
    if not parts_are_right or not all(len(key) > 1 and isinstance(key[0], str) for key in keys):
        raise ValueError("a key of another kind")
    return keys
