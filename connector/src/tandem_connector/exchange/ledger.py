# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one peer's wants, within bounds: a peer says how many there are, and how long each is."""

from tandem_connector.contract.types import WantId
from tandem_connector.exchange.served_want import ServedWant
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.tombstones import Tombstones


class Ledger:
    """All wants of one peer."""

    def __init__(self, settings: ExchangeSettings) -> None:
        self.active: dict[WantId, ServedWant] = {}
        self.tombstones = Tombstones(settings.tombstones_per_peer, settings.hashes_per_peer)
        self._settings = settings
        self._hashes = 0

    def has_room(self, hashes: int) -> bool:
        """Whether another want, of so many hashes, may be served."""
        settings = self._settings
        return len(self.active) < settings.wants_per_peer and self._hashes + hashes <= settings.hashes_per_peer

    def begin(self, want: ServedWant) -> None:
        """The want is served from now on."""
        self.active[want.id] = want
        self._hashes += len(want.hashes)

    def end(self, want: ServedWant) -> bool:
        """The want is over; False if it was already."""
        if self.active.pop(want.id, None) is None:
            return False
        self._hashes -= len(want.hashes)
        return True
