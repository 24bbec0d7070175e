# SPDX-License-Identifier: Apache-2.0
"""What asking needs of its surroundings. The caller matches over `Command` exhaustively, in order."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from tandem_connector.asking.choose import How
from tandem_connector.asking.types import Arrival, CallId, Failure, LocalReason, Obstacle
from tandem_connector.contract.peers import Address
from tandem_connector.contract.prefill import NoteProblem, PrefillReceipt
from tandem_connector.contract.types import QueryId
from tandem_connector.exchange.types import BlockHash, EngineId, RequestId, Seconds


@dataclass(frozen=True, slots=True)
class SendQuery:
    """Send these peers a `Query`, and tell of their `Have` by `Asking.have`. It may be lost."""

    query: QueryId
    engines: tuple[EngineId, ...]
    hashes: tuple[BlockHash, ...]


@dataclass(frozen=True, slots=True)
class StartCall:
    """Send the engine the prefill request, and tell of its end by `Asking.call_ended`."""

    call: CallId
    engine: EngineId
    address: Address
    arrival: Arrival
    """The request on whose behalf it is sent."""
    held_tokens: int
    """What the engine may fetch from this one."""
    timeout: Seconds
    """How long the call may last at most."""


@dataclass(frozen=True, slots=True)
class CancelCall:
    """Close the call's connection, so that the engine stops computing. Its end need not be told."""

    call: CallId


@dataclass(frozen=True, slots=True)
class WantFrom:
    """The request's missing blocks are to be wanted from this engine, and no more from the one that was named before."""

    request: RequestId
    engine: EngineId
    start: int
    """Index of the first block to want."""
    stop: int
    """Index after the last one."""
    deadline: Seconds
    """After which nothing comes any more; this process's monotonic clock."""


@dataclass(frozen=True, slots=True)
class ComputeLocally:
    """Nobody else computes the request's prompt. What was wanted for it may still come, but isn't to be waited for."""

    request: RequestId
    why: LocalReason | Obstacle
    home: EngineId | None
    """The P that has the conversation all the same, and should be offered the turn."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """P has computed the request's prompt: every block has been written, or is on its way."""

    request: RequestId
    engine: EngineId
    receipt: PrefillReceipt | None
    took: Seconds
    """Since the request arrived."""


Command: TypeAlias = SendQuery | StartCall | CancelCall | WantFrom | ComputeLocally | Prefilled


@dataclass(slots=True)
class AskingTally:
    """What was done since the engine began; metrics are made of it."""

    local: Counter[LocalReason | Obstacle] = field(default_factory=Counter)
    """Requests whose prompt is computed here, by reason."""
    calls: Counter[How] = field(default_factory=Counter)
    """Prefill requests sent, by what chose their P."""
    failures: Counter[Failure] = field(default_factory=Counter)
    """Attempts that failed, by how."""
    answered: int = 0
    """Prefills that a P computed."""
    shared: int = 0
    """Requests that took part in a prefill which was asked for already."""
    promoted: int = 0
    """Prefills whose first request left, and that went on for another."""
    notes: Counter[NoteProblem] = field(default_factory=Counter)
    """Notes of prefill requests that were not used, by why; counted by the engine that got them."""
