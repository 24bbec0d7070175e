# SPDX-License-Identifier: Apache-2.0
"""What is refused when an engine starts, each by its name and with what to do instead."""

from dataclasses import replace
from typing import Any

import pytest

from tandem_connector.vllm.refusals import EngineShape, UnsupportedError, check_supported, refusals

FITTING = EngineShape(
    connector="TandemConnector",
    kv_role="kv_both",
    load_failure_policy="recompute",
    prefix_caching=True,
    hash_algorithm="sha256_cbor",
    block_size=16,
    hash_block_size=16,
    groups=1,
    full_attention=True,
    pipeline_parallel=1,
    prefill_context_parallel=1,
    decode_context_parallel=1,
    speculative=False,
    policy="fcfs",
    encoder_decoder=False,
    one_server=True,
)


def test_an_engine_that_fits_is_not_refused() -> None:
    check_supported(FITTING)


@pytest.mark.parametrize(
    ("change", "named", "remedy"),
    [
        ({"connector": "MultiConnector"}, "MultiConnector", "NixlPull"),
        ({"kv_role": "kv_consumer"}, "kv_role kv_consumer", "kv_both"),
        ({"load_failure_policy": "fail"}, "kv_load_failure_policy fail", "set recompute"),
        ({"prefix_caching": False}, "prefix caching is off", "leave it on"),
        ({"hash_algorithm": "xxhash"}, "prefix_caching_hash_algo xxhash", "sha256_cbor"),
        ({"hash_block_size": 8}, "named by 8 tokens", "NixlPull"),
        ({"groups": 2}, "2 KV cache groups", "NixlPull"),
        ({"full_attention": False}, "all tokens", "NixlPull"),
        ({"pipeline_parallel": 2}, "pipeline parallelism 2", "NixlPull"),
        ({"prefill_context_parallel": 2}, "context parallelism 2/1", "NixlPull"),
        ({"decode_context_parallel": 4}, "context parallelism 1/4", "NixlPull"),
        ({"speculative": True}, "speculative decoding", "NixlPull"),
        ({"policy": "priority"}, "scheduling policy priority", "fcfs"),
        ({"encoder_decoder": True}, "encoder-decoder", "NixlPull"),
        ({"one_server": False}, "data-parallel ranks behind several servers", "give only --data-parallel-size"),
    ],
)
def test_what_cannot_be_exchanged_is_refused_by_name(change: dict[str, Any], named: str, remedy: str) -> None:
    (text,) = refusals(replace(FITTING, **change))
    assert named in text
    assert remedy in text


def test_everything_that_is_in_the_way_is_said_at_once() -> None:
    with pytest.raises(UnsupportedError, match=r"2 KV cache groups.*pipeline parallelism 2"):
        check_supported(replace(FITTING, groups=2, pipeline_parallel=2))
