# SPDX-License-Identifier: Apache-2.0
"""Which engines run together, and which ways they make.

Prefill and the plain engine compute on the first core, decode engines on the second one; of all that run together only
one way is used at a time. Several decode engines share one prefill engine, so that ways can be compared turn by turn:
each way's conversations have tokens of their own, and nobody gains from another's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.bench.kv.scale import Scale
from e2e.bench.kv.ways import OneEngine, TwoLegs, Way
from e2e.exchange.engines import Engines, EngineSpec
from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import Role

PREFILL_CORE, DECODE_CORE = "0", "1"
PLAIN, NO_REVERSE, REVERSE, THRESHOLD = "plain", "no_reverse", "reverse", "threshold"
PULL, BIDIRECTIONAL = "pull", "bidirectional"
_ALWAYS: Mapping[str, Any] = {"disaggregate_above_tokens": 0}
_TANDEM: Mapping[str, Mapping[str, Any]] = {
    NO_REVERSE: {**_ALWAYS, "reverse": Reverse.DISABLED},
    REVERSE: _ALWAYS,
    THRESHOLD: {},
}
"""The settings of decode engines; the last one's are the defaults."""
_WAITS: Mapping[str, Any] = {"estimate_age": 0}
"""Prefill fetches, and waits for what comes back, always: by default it computes what it measured to be computed sooner, and
then counts would be the machine's."""
_UPSTREAM: Mapping[str, Mapping[str, Any]] = {PULL: {}, BIDIRECTIONAL: {"bidirectional_kv_xfer": True}}


@dataclass(frozen=True)
class Cast:
    """Engines that run together."""

    tandem: tuple[str, ...] = ()
    """Ways with a decode engine each, and one prefill engine for all."""
    upstream: str = ""
    """The way with a prefill and a decode engine of upstream's connector; empty: none."""
    plain: bool = False
    forgets: bool = False
    """Prefill's cache is small."""
    asides: bool = False
    """`asides` are measured as well: it has a plain engine and the way with reverse."""

    def specs(self, scale: Scale) -> dict[str, EngineSpec]:
        """What is to be started, by names that `ways` and `prefill` know."""
        longest = scale.forgetting.longest if self.forgets else scale.shape.longest

        def spec(role: Role | None, core: str, blocks: int, **more: Any) -> EngineSpec:
            arguments = (f"--max-model-len={longest}", f"--num-gpu-blocks-override={blocks}")
            return EngineSpec(role, core=core, arguments=arguments, **more)

        at_prefill = scale.few_blocks if self.forgets else max(1, len(self.tandem)) * scale.blocks
        specs = {}
        if self.plain:
            specs[PLAIN] = spec(None, PREFILL_CORE, scale.blocks)
        if self.tandem:
            specs["prefill"] = spec(Role.PREFILL, PREFILL_CORE, at_prefill, extra=_WAITS)
        if self.upstream:
            settings = _UPSTREAM[self.upstream]
            specs["prefill"] = spec(None, PREFILL_CORE, at_prefill, upstream=settings)
            specs[self.upstream] = spec(None, DECODE_CORE, scale.blocks, upstream=settings)
        specs |= {name: spec(Role.DECODE, DECODE_CORE, scale.blocks, extra=_TANDEM[name]) for name in self.tandem}
        return specs

    def ways(self, engines: Engines) -> list[Way]:
        """The ways that the running engines make."""
        ways: list[Way] = [OneEngine(PLAIN, engines[PLAIN])] if self.plain else []
        ways += [OneEngine(name, engines[name]) for name in self.tandem]
        if self.upstream:
            decode = engines[self.upstream]
            bidirectional = self.upstream == BIDIRECTIONAL
            ways.append(TwoLegs(self.upstream, engines["prefill"], decode, bidirectional=bidirectional))
        return ways
