# SPDX-License-Identifier: Apache-2.0
"""The field's terms as types, so that a generation is not passed where a port is wanted."""

from enum import StrEnum
from typing import NewType

EngineId = NewType("EngineId", str)
"""Names one incarnation of one engine: `<pod UID>-<start>`. A restarted engine is another engine."""


def pod_of(engine: EngineId) -> str:
    """UID of the engine's pod: all before the last dash."""
    return engine.rpartition("-")[0]


Generation = NewType("Generation", int)
"""Number of a peer table. Only grows; an engine ignores a table whose generation is below the one it has."""


BlockHash = NewType("BlockHash", bytes)
"""vLLM's name of a full KV block: a hash chained over all tokens before it, LoRA, multimodal and cache-salt keys included."""

WantId = NewType("WantId", int)
"""Names a want of one engine incarnation. Only grows, so that what is older than the oldest open want is over."""

OfferId = NewType("OfferId", int)
"""Names an offer of one engine incarnation."""

QueryId = NewType("QueryId", int)
"""Names a query of one engine incarnation."""


class Role(StrEnum):
    """Which pool an engine belongs to."""

    PREFILL = "prefill"
    DECODE = "decode"

    @property
    def other(self) -> "Role":
        """The pool whose engines this one works with."""
        return Role.DECODE if self is Role.PREFILL else Role.PREFILL


class EngineState(StrEnum):
    """What an engine may be asked for now."""

    STARTING = "starting"
    """Its process runs, but it doesn't answer yet: connect to it, ask it nothing."""
    READY = "ready"
    """It answers."""
    DRAINING = "draining"
    """It ends soon: no new turn, no new prefill."""
