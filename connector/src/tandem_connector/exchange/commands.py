# SPDX-License-Identifier: Apache-2.0
"""What the exchange asks of its surroundings. The caller matches over `Command` exhaustively, in order."""

from dataclasses import dataclass
from typing import TypeAlias

from tandem_connector.contract.messages import Message
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    EndReason,
    EngineId,
    Index,
    JobId,
    Purpose,
    RequestId,
    Seconds,
    WantId,
    Write,
)


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a peer; it may be lost."""

    peer: EngineId
    message: Message


@dataclass(frozen=True, slots=True)
class DropPeer:
    """The peer broke the protocol: close its connection, and take nothing from it again."""

    peer: EngineId
    why: str


@dataclass(frozen=True, slots=True)
class PostWrite:
    """Hand a job to the workers, and report its end by `Exchange.write_ended`."""

    write: Write


@dataclass(frozen=True, slots=True)
class WithdrawWrites:
    """These jobs need not be posted any more. Their end is reported all the same: failed, if they were not posted."""

    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class ExpectWant:
    """The workers will get notifications that name this want: count them over the ranks."""

    want: WantId
    peer: EngineId
    blocks: tuple[BlockId, ...]


@dataclass(frozen=True, slots=True)
class ExpectFewer:
    """So many of the want's blocks won't come, and others still may."""

    want: WantId
    blocks: int


@dataclass(frozen=True, slots=True)
class ForgetWant:
    """The want's blocks are released: what the workers counted for it is of no use any more."""

    want: WantId


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """A request's want ended, once: blocks at `good` hold what was asked for, those at `bad` must be computed."""

    request: RequestId
    want: WantId
    peer: EngineId
    purpose: Purpose
    good: tuple[Index, ...]
    bad: tuple[Index, ...]
    reason: EndReason
    waited: Seconds


@dataclass(frozen=True, slots=True)
class LandingCommitted:
    """Offered blocks arrived and entered the prefix cache under their names (those that were not there already)."""

    want: WantId
    peer: EngineId
    purpose: Purpose
    hashes: tuple[BlockHash, ...]
    blocks: tuple[BlockId, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LandingEnded:
    """A want that answers an offer ended, once."""

    want: WantId
    peer: EngineId
    purpose: Purpose
    wanted: int
    received: int
    reason: EndReason
    waited: Seconds


@dataclass(frozen=True, slots=True)
class ServingEnded:
    """A peer's want is over at this engine."""

    want: WantId
    peer: EngineId
    purpose: Purpose
    written: int
    missing: int


@dataclass(frozen=True, slots=True)
class MoveEnded:
    """All that a draining engine had to offer was offered to its successor."""

    successor: EngineId
    offered: int
    written: int


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """More blocks are in quarantine than allowed: report the engine as not healthy."""

    why: str


@dataclass(frozen=True, slots=True)
class Healthy:
    """The quarantine is within its bound again."""


Command: TypeAlias = (
    Send
    | DropPeer
    | PostWrite
    | WithdrawWrites
    | ExpectWant
    | ExpectFewer
    | ForgetWant
    | LoadEnded
    | LandingCommitted
    | LandingEnded
    | ServingEnded
    | MoveEnded
    | Unhealthy
    | Healthy
)
