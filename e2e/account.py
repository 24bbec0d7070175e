# SPDX-License-Identifier: Apache-2.0
"""What the engines computed and moved, read from their own metrics.

Metrics of vLLM 0.32: `vllm:prompt_tokens_by_source_total` tells where each prompt token's KV came from;
`vllm:nixl_bytes_transferred_sum` is counted by the engine that starts a transfer, which with upstream's pull connector is
the one that receives.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

_BY_SOURCE = "vllm:prompt_tokens_by_source_total"
_BYTES = "vllm:nixl_bytes_transferred_sum"


@dataclass(frozen=True)
class EngineAccount:
    """Totals of one engine, or of several together, since their start."""

    computed: int = 0
    """Prompt tokens computed here."""
    cached: int = 0
    """Prompt tokens found in the engine's own prefix cache."""
    received: int = 0
    """Prompt tokens whose KV came from another engine. Planned ones: a failed transfer is not taken off by vLLM."""
    received_bytes: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """From an engine's `/metrics` in Prometheus' text form."""
        sources: dict[str, float] = {}
        moved = 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _BY_SOURCE:
                    source = sample.labels["source"]
                    sources[source] = sources.get(source, 0.0) + sample.value
                elif sample.name == _BYTES:
                    moved += sample.value
        return cls(
            computed=int(sources.get("local_compute", 0)),
            cached=int(sources.get("local_cache_hit", 0)),
            received=int(sources.get("external_kv_transfer", 0)),
            received_bytes=int(moved),
        )

    @classmethod
    def total(cls, accounts: Iterable[Self]) -> Self:
        """All of them together."""
        listed = list(accounts)
        return cls(**{each.name: sum(getattr(account, each.name) for account in listed) for each in fields(cls)})

    def since(self, earlier: Self) -> Self:
        """What was added after `earlier`."""
        return type(self)(
            **{each.name: getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)}
        )


@dataclass(frozen=True)
class PoolsAccount:
    """Both pools' totals."""

    prefill: EngineAccount
    decode: EngineAccount

    @classmethod
    def of(cls, metrics: Mapping[str, Iterable[str]]) -> Self:
        """From the metrics texts of the engines of each role."""
        return cls(
            **{
                role: EngineAccount.total(EngineAccount.parse(text) for text in metrics[role])
                for role in ("prefill", "decode")
            }
        )

    def since(self, earlier: Self) -> Self:
        """What was added after `earlier`."""
        return type(self)(self.prefill.since(earlier.prefill), self.decode.since(earlier.decode))
