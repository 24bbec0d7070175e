# SPDX-License-Identifier: Apache-2.0
"""The field's terms as types, so that a generation is not passed where a port is wanted."""

import re
from enum import StrEnum
from typing import Final, NamedTuple, NewType

EngineId = NewType("EngineId", str)
"""Names one incarnation of one engine: `<pod UID>-<start>`. A restarted engine is another engine.

Where a pod's server has data-parallel ranks, each rank is an engine, and vLLM adds `_dp<rank>` to the name
(`run_engine_core` in `v1/engine/core.py`)."""
_RANK: Final = re.compile(r"_dp([0-9]{1,4})$")


class Seat(NamedTuple):
    """Where an engine is: what stays when another process takes its place."""

    pod: str
    """The pod's UID."""
    rank: int | None
    """Its data-parallel rank; None where a pod has one engine."""


def pod_of(engine: EngineId) -> str:
    """UID of the engine's pod: all before the last dash."""
    return engine.rpartition("-")[0]


def rank_of(engine: EngineId) -> int | None:
    """The engine's data-parallel rank; None where its pod has one engine."""
    found = _RANK.search(engine)
    return int(found[1]) if found else None


def seat_of(engine: EngineId) -> Seat:
    """Pod and rank of the engine."""
    return Seat(pod_of(engine), rank_of(engine))


def engine_of_rank(listed: EngineId, rank: int) -> EngineId:
    """The name of a rank, of a pod whose ranks have one name in a peer table."""
    return EngineId(f"{listed}_dp{rank}")


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
