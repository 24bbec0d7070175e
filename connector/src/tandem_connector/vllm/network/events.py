# SPDX-License-Identifier: Apache-2.0
"""What the network tells its owner, in the order in which it happened."""

from dataclasses import dataclass
from typing import TypeAlias

from tandem_connector.contract.messages import Envelope, Hello
from tandem_connector.exchange.types import EngineId, Seconds


@dataclass(frozen=True, slots=True)
class PeerJoined:
    """The peer's Hello was accepted: messages from it may follow, and may be sent. Told once, while it is in the table."""

    peer: EngineId
    hello: Hello


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """The peer's Hello doesn't fit, or there may be no connection to its address. Nothing follows from this incarnation."""

    peer: EngineId
    why: str
    """Names what is in the way: each field that differs, with both values."""


@dataclass(frozen=True, slots=True)
class PeerSilent:
    """Nothing is heard of a peer that had joined, or it was dropped."""

    peer: EngineId


@dataclass(frozen=True, slots=True)
class PeerBack:
    """A silent peer is heard again."""

    peer: EngineId


@dataclass(frozen=True, slots=True)
class PeerReplaced:
    """Another engine answers at the peer's address: this incarnation has certainly ended, or the name was none of an incarnation."""

    peer: EngineId
    by: EngineId


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a peer that has joined, for this engine. Never Hello, Pong or Gone; never a Ping that names no want."""

    envelope: Envelope
    at: Seconds
    """When it was read from the socket, by the network's clock."""


Event: TypeAlias = PeerJoined | PeerRefused | PeerSilent | PeerBack | PeerReplaced | Received
