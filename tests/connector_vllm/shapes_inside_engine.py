# SPDX-License-Identifier: Apache-2.0
"""Checks of what the connector makes of vLLM's descriptions of KV caches: see `inside_engine.py`."""

from types import SimpleNamespace
from typing import Any

import torch
from vllm.config import CacheConfig, KVTransferConfig, ParallelConfig
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
)

from tandem_connector.vllm.shape import shape_of


def cache_of(*specs: AttentionSpec) -> KVCacheConfig:
    """One KV cache group for each."""
    groups = [KVCacheGroupSpec([f"layers.{number}"], spec) for number, spec in enumerate(specs)]
    return KVCacheConfig(num_blocks=8, kv_cache_tensors=[], kv_cache_groups=groups)


LATENT = {"block_size": 16, "num_kv_heads": 1, "head_size": 576, "dtype": torch.float32}


def latent_attention_keeps_all_tokens_in_one_group() -> None:
    shape = shape_of(a_configuration(), cache_of(MLAAttentionSpec(**LATENT)))
    assert (shape.groups, shape.full_attention) == (1, True)


def latent_attention_with_a_window_does_not_keep_all_tokens() -> None:
    assert not shape_of(a_configuration(), cache_of(SlidingWindowMLASpec(**LATENT, sliding_window=64))).full_attention


def data_parallel_ranks_behind_one_server_are_told_from_others() -> None:
    for one_server, more in (
        (True, {}),
        (True, {"data_parallel_size": 2, "data_parallel_size_local": 2}),
        (False, {"data_parallel_size": 2, "data_parallel_size_local": 1}),
        (False, {"data_parallel_size": 2, "data_parallel_size_local": 1, "data_parallel_external_lb": True}),
        (False, {"data_parallel_size": 2, "data_parallel_size_local": 2, "data_parallel_hybrid_lb": True}),
    ):
        shape = shape_of(a_configuration(ParallelConfig(**more)), cache_of(MLAAttentionSpec(**LATENT)))
        assert shape.one_server is one_server, more


def a_configuration(parallel: ParallelConfig | None = None) -> Any:
    """As much of a `VllmConfig` as the shape of an engine needs."""
    return SimpleNamespace(
        kv_transfer_config=KVTransferConfig(kv_connector="TandemConnector", kv_role="kv_both"),
        cache_config=CacheConfig(block_size=16),
        parallel_config=parallel or ParallelConfig(),
        speculative_config=None,
        scheduler_config=SimpleNamespace(policy="fcfs"),
        model_config=SimpleNamespace(is_encoder_decoder=False),
    )
