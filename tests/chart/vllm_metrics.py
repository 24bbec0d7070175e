# SPDX-License-Identifier: Apache-2.0
"""Metrics of vLLM 0.32 that dashboards use, as its servers show them (vllm/v1/metrics/loggers.py); labels besides its own two."""

VLLM_METRICS: dict[str, tuple[str, ...]] = {
    "vllm:inter_token_latency_seconds_bucket": ("le",),
    "vllm:kv_cache_usage_perc": (),
    "vllm:num_requests_running": (),
    "vllm:num_requests_waiting": (),
    "vllm:time_to_first_token_seconds_bucket": ("le",),
}
