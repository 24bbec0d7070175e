# SPDX-License-Identifier: Apache-2.0
"""The dashboard of turns and KV."""

from typing import Final

from charts.grafana import Dashboard, Panel, Query, Row
from charts.panel_queries import DECODE, ENGINES, by, quantiles, rate_of


def _of_pairs(purposes: str) -> Query:
    where = f'{ENGINES}, purpose=~"{purposes}"'
    return Query(f"topk(16, {rate_of('tandem_peer_bytes_received_total', 'peer, pod', where)})", "{{peer}} to {{pod}}")


TURNS: Final = Dashboard(
    uid="tandem-turns",
    title="Tandem / Turns and KV",
    description="What turns reuse, compute and move, and clients wait for. Needs the chart's podMonitor.",
    namespaces="label_values(tandem_transport, namespace)",
    resources='label_values(tandem_transport{namespace=~"$namespace"}, tandem_dev_resource)',
    rows=(
        Row(
            "Reuse",
            (
                Panel(
                    "Prompt tokens of decode's turns, by where their KV came from",
                    "What decode computes itself should be little: the last, partial block, and prompts too short to be asked for.",
                    "short",
                    (Query(rate_of("tandem_prompt_tokens_total", "source", DECODE), "{{source}}"),),
                    stacked=True,
                ),
                Panel(
                    "Prompt tokens of prefill's requests, by where their KV came from",
                    "`cached` and `reverse_fetch` are reuse; `computed` should be what a conversation has new.",
                    "short",
                    (
                        Query(
                            rate_of("tandem_prompt_tokens_total", "source", f'{ENGINES}, tandem_dev_role="prefill"'),
                            "{{source}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Share of prompt tokens that nobody computed again",
                    "1 minus what both roles computed, of what decode was asked. Falls with new conversations as well.",
                    "percentunit",
                    (
                        Query(
                            "clamp_min(1 - sum by (tandem_dev_resource) "
                            f'(rate(tandem_prompt_tokens_total{{{ENGINES}, source="computed"}}[$__rate_interval]))'
                            f" / {rate_of('tandem_prompt_tokens_total', 'tandem_dev_resource', DECODE)}, 0)",
                            "{{tandem_dev_resource}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "KV between engines",
            (
                Panel(
                    "KV received, by purpose",
                    "`forward` goes from prefill to decode, `reverse_fetch` and `reverse_push` back, `move` to a successor.",
                    "Bps",
                    (Query(rate_of("tandem_bytes_received_total", "purpose"), "{{purpose}}"),),
                    stacked=True,
                ),
                Panel(
                    "KV written into peers, by purpose",
                    "Differs from what is received by what is on its way, or was lost.",
                    "Bps",
                    (Query(rate_of("tandem_bytes_written_total", "purpose"), "{{purpose}}"),),
                    stacked=True,
                ),
                Panel(
                    "KV from prefill to decode, by pair",
                    "The 16 pairs that most goes over, as decode received it. Uneven: see `frontDoor.policy`, and sessions.",
                    "Bps",
                    (_of_pairs("forward"),),
                ),
                Panel(
                    "KV from decode to prefill, by pair",
                    "The 16 pairs that most goes over, as prefill received it: pushed by decode, or fetched.",
                    "Bps",
                    (_of_pairs("reverse_push|reverse_fetch"),),
                ),
                Panel(
                    "Engines by transport",
                    "Over what KV goes. On EFA: LIBFABRIC, efa, and the devices that were asked for.",
                    "short",
                    (
                        Query(
                            f"count by (backend, provider, devices) (tandem_transport{{{ENGINES}}})",
                            "{{backend}} {{provider}}, {{devices}} devices",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "What clients wait for",
            (
                Panel(
                    "Time to first token",
                    "Of decode engines, which answer clients; without the front door's part. vLLM doesn't tell turns apart.",
                    "s",
                    quantiles("vllm:time_to_first_token_seconds", DECODE),
                ),
                Panel(
                    "Time between tokens",
                    "Of decode engines.",
                    "s",
                    quantiles("vllm:inter_token_latency_seconds", DECODE),
                ),
                Panel(
                    "Waiting for other engines' blocks",
                    "Part of the time to the first token. Long waits: prefill is busy, or the transport slow.",
                    "s",
                    quantiles("tandem_wait_seconds", DECODE),
                ),
            ),
        ),
        Row(
            "Why something is computed again",
            (
                Panel(
                    "Prompts that decode computed itself, by reason",
                    "`cached`, `few_missing` and `multimodal` are as wanted; `no_peer`, `all_failed` and `too_late` are not.",
                    "reqps",
                    (Query(rate_of("tandem_prompts_local_total", "reason"), "{{reason}}"),),
                    stacked=True,
                ),
                Panel(
                    "Attempts at a prefill that failed, by how",
                    "Each is tried at another prefill engine, as far as there is one.",
                    "reqps",
                    (Query(rate_of("tandem_prefill_failures_total", "failure"), "{{failure}}"),),
                ),
                Panel(
                    "Blocks that were wanted and did not come",
                    "By why they were wanted, and how the want ended.",
                    "short",
                    (Query(rate_of("tandem_blocks_lost_total", "purpose, reason"), "{{purpose}}, {{reason}}"),),
                ),
            ),
        ),
        Row(
            "Load",
            (
                Panel(
                    "Requests, running and waiting",
                    "A role that always has requests waiting is too small.",
                    "short",
                    (
                        Query(by("vllm:num_requests_running", "tandem_dev_role"), "{{tandem_dev_role}} running"),
                        Query(by("vllm:num_requests_waiting", "tandem_dev_role"), "{{tandem_dev_role}} waiting"),
                    ),
                ),
                Panel(
                    "KV cache in use",
                    "By running requests, blocks that are held for peers included. The fullest engine of each role.",
                    "percentunit",
                    (Query(by("vllm:kv_cache_usage_perc", "tandem_dev_role", function="max"), "{{tandem_dev_role}}"),),
                ),
                Panel(
                    "Fetched or computed, waited or computed",
                    "What engines choose by their own measurements when a peer has blocks, or they are on their way.",
                    "reqps",
                    (Query(rate_of("tandem_choices_total", "of, choice"), "{{of}}: {{choice}}"),),
                ),
            ),
        ),
    ),
)
