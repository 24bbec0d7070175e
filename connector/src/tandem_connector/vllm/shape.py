# SPDX-License-Identifier: Apache-2.0
"""What vLLM's configuration says of an engine: whether it can exchange, and what a peer's must equal."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import vllm

from tandem_connector.contract.messages import Fingerprint
from tandem_connector.vllm.adapter import hash_seed
from tandem_connector.vllm.refusals import EngineShape


def shape_of(config: Any, cache: Any) -> EngineShape:
    """From `VllmConfig` and `KVCacheConfig`."""
    transfer, parallel = config.kv_transfer_config, config.parallel_config
    block_size = config.cache_config.block_size
    return EngineShape(
        connector=str(transfer.kv_connector),
        kv_role=str(transfer.kv_role),
        load_failure_policy=str(transfer.kv_load_failure_policy),
        prefix_caching=bool(config.cache_config.enable_prefix_caching),
        hash_algorithm=str(config.cache_config.prefix_caching_hash_algo),
        block_size=block_size,
        hash_block_size=getattr(config.cache_config, "hash_block_size", None) or block_size,
        groups=len(cache.kv_cache_groups),
        full_attention=all(_keeps_all(group.kv_cache_spec) for group in cache.kv_cache_groups),
        pipeline_parallel=parallel.pipeline_parallel_size,
        prefill_context_parallel=getattr(parallel, "prefill_context_parallel_size", 1),
        decode_context_parallel=getattr(parallel, "decode_context_parallel_size", 1),
        speculative=config.speculative_config is not None,
        policy=str(config.scheduler_config.policy),
        encoder_decoder=bool(config.model_config.is_encoder_decoder),
        one_server=_has_one_server(parallel),
    )


def _has_one_server(parallel: Any) -> bool:
    """A rank of a model without experts knows itself as the only one: vLLM has put its `data_parallel_size` to 1 by then."""
    elsewhere = parallel.data_parallel_size_local != parallel.data_parallel_size
    return not (parallel.data_parallel_external_lb or parallel.data_parallel_hybrid_lb or elsewhere)


def _keeps_all(spec: Any) -> bool:
    name = type(spec).__name__
    windowed = getattr(spec, "sliding_window", None) or getattr(spec, "attention_chunk_size", None)
    return name in {"FullAttentionSpec", "MLAAttentionSpec"} and not windowed


def fingerprint_of(config: Any, cache: Any, layouts: tuple[str, ...]) -> Fingerprint:
    """What a peer's must equal. `layouts`: of each rank's memory, as the ranks saw them."""
    model, parallel = config.model_config, config.parallel_config
    groups = ";".join(
        f"{type(group.kv_cache_spec).__name__}:{group.kv_cache_spec.block_size}:{len(group.layer_names)}"
        for group in cache.kv_cache_groups
    )
    return Fingerprint(
        model=str(model.model)[:256],
        model_revision=str(model.revision or "")[:1_024],
        dtype=str(model.dtype),
        kv_cache_dtype=str(config.cache_config.cache_dtype),
        kv_layout=" | ".join(dict.fromkeys(layouts))[:256] or "unknown",
        groups=groups[:1_024],
        block_size=config.cache_config.block_size,
        tensor_parallel=parallel.tensor_parallel_size,
        pipeline_parallel=parallel.pipeline_parallel_size,
        hash_algorithm=str(config.cache_config.prefix_caching_hash_algo),
        hash_seed=hash_seed()[:1_024],
        vllm_version=str(vllm.__version__)[:256],
        connector_version=_own_version(),
    )


def _own_version() -> str:
    try:
        return version("tandem-connector")
    except PackageNotFoundError:  # copied into the image without its metadata
        return "unpackaged"
