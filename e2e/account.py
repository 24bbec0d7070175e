# SPDX-License-Identifier: Apache-2.0
"""What the engines computed and moved, read from their own metrics.

Engines with Tandem's connector tell where each prompt token's KV came from in `tandem_prompt_tokens_total`, once the turn has
ended, and count received bytes in `tandem_bytes_received_total`. Others do it in vLLM's `prompt_tokens_by_source_total`, and in
`nixl_bytes_transferred_sum` of the engine that starts a transfer, which with upstream's pull connector is the one that
receives.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

_TANDEM_TOKENS, _TANDEM_BYTES = "tandem_prompt_tokens_total", "tandem_bytes_received_total"
_VLLM_TOKENS, _VLLM_BYTES = "vllm:prompt_tokens_by_source_total", "vllm:nixl_bytes_transferred_sum"
_COMPUTED = {_TANDEM_TOKENS: "computed", _VLLM_TOKENS: "local_compute"}
_CACHED = {_TANDEM_TOKENS: "cached", _VLLM_TOKENS: "local_cache_hit"}


@dataclass(frozen=True)
class EngineAccount:
    """Totals of one engine, or of several together, since their start."""

    computed: int = 0
    """Prompt tokens computed here."""
    cached: int = 0
    """Prompt tokens found in the engine's own prefix cache."""
    received: int = 0
    """Prompt tokens whose KV came from another engine; without Tandem's connector those that were to come."""
    received_bytes: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """From an engine's `/metrics` in Prometheus' text form."""
        tokens: dict[str, Counter[str]] = {_TANDEM_TOKENS: Counter(), _VLLM_TOKENS: Counter()}
        moved: Counter[str] = Counter()
        is_tandem = False
        for family in text_string_to_metric_families(text):
            is_tandem |= family.name.startswith("tandem_")
            for sample in family.samples:
                if sample.name in tokens:
                    tokens[sample.name][sample.labels["source"]] += int(sample.value)
                elif sample.name in {_TANDEM_BYTES, _VLLM_BYTES}:
                    moved[sample.name] += int(sample.value)
        name = _TANDEM_TOKENS if is_tandem else _VLLM_TOKENS
        computed, cached = tokens[name][_COMPUTED[name]], tokens[name][_CACHED[name]]
        return cls(
            computed=computed,
            cached=cached,
            received=tokens[name].total() - computed - cached,
            received_bytes=moved[_TANDEM_BYTES if is_tandem else _VLLM_BYTES],
        )

    @classmethod
    def total(cls, accounts: Iterable[Self]) -> Self:
        """All of them together."""
        listed = list(accounts)
        return cls(**{each.name: sum(getattr(account, each.name) for account in listed) for each in fields(cls)})

    @property
    def prompt(self) -> int:
        """Prompt tokens of all turns that are accounted for."""
        return self.computed + self.cached + self.received

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
