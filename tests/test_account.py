# SPDX-License-Identifier: Apache-2.0
"""What is read from engines' metrics."""

from e2e.account import EngineAccount, PoolsAccount

PULL = """
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 274.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 512.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 30.0
# TYPE vllm:nixl_bytes_transferred histogram
vllm:nixl_bytes_transferred_bucket{engine="0",le="+Inf",model_name="m"} 2.0
vllm:nixl_bytes_transferred_count{engine="0",model_name="m"} 2.0
vllm:nixl_bytes_transferred_sum{engine="0",model_name="m"} 8192.0
"""

PUSH = """
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 999.0
# TYPE tandem_prompt_tokens_total counter
tandem_prompt_tokens_total{engine="0",model_name="m",source="computed"} 12.0
tandem_prompt_tokens_total{engine="0",model_name="m",source="cached"} 640.0
tandem_prompt_tokens_total{engine="0",model_name="m",source="forward"} 96.0
# TYPE tandem_bytes_received_total counter
tandem_bytes_received_total{engine="0",model_name="m",purpose="forward"} 300.0
tandem_bytes_received_total{engine="0",model_name="m",purpose="reverse_push"} 100.0
"""


def test_of_an_upstream_engine_vllms_own_counters_are_read() -> None:
    assert EngineAccount.parse(PULL) == EngineAccount(computed=274, cached=512, received=30, received_bytes=8192)


def test_of_an_engine_with_tandems_connector_only_the_connectors_counters_are_read() -> None:
    assert EngineAccount.parse(PUSH) == EngineAccount(computed=12, cached=640, received=96, received_bytes=400)
    assert EngineAccount.parse(PUSH).prompt == 748


def test_pools_are_summed_and_what_came_after_a_moment_is_the_difference() -> None:
    before = PoolsAccount.of({"prefill": [PULL], "decode": [PUSH]})
    after = PoolsAccount.of({"prefill": [PULL, PULL], "decode": [PUSH]})

    assert after.since(before).prefill == EngineAccount.parse(PULL)
    assert after.since(before).decode == EngineAccount()
