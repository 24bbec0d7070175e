# SPDX-License-Identifier: Apache-2.0
"""Who speaks on a connection, to know whom to blame for what is no message."""

from typing import Final

from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.network.sockets import ConnectionId

_MOST: Final = 4_096
"""Connections that are remembered. One that has ended is not told of, so the oldest is forgotten."""


class Speakers:
    """Connections to this engine on which a peer has spoken."""

    def __init__(self) -> None:
        self._speakers: dict[ConnectionId, EngineId] = {}

    def spoke(self, connection: ConnectionId, peer: EngineId) -> None:
        """A message of the peer came on the connection."""
        if connection not in self._speakers and len(self._speakers) >= _MOST:
            del self._speakers[next(iter(self._speakers))]
        self._speakers[connection] = peer

    def on(self, connection: ConnectionId) -> EngineId | None:
        """The peer that spoke on the connection last."""
        return self._speakers.get(connection)
