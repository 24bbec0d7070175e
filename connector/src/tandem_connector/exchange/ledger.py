# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one peer's wants, within bounds: a peer says how many there are, and how long each is."""

from collections.abc import Iterable, Iterator

from tandem_connector.contract.messages import CancelAck, Missing, MissingReason
from tandem_connector.contract.types import EngineId, WantId
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

    def acknowledge(self, want_id: WantId) -> CancelAck:
        """What to say of a want that isn't active, and never will be from now on."""
        self._bury(want_id)
        return CancelAck(want_id, self.tombstones.is_uncertain(want_id))

    def repeat(self, wants: Iterable[WantId]) -> Iterator[Missing]:
        """What to say of those that aren't active, and never will be from now on, if something of them is missing."""
        for want_id in wants:
            if want_id in self.active:
                continue
            self._bury(want_id)
            indices = self.tombstones.missing_of(want_id)
            if indices != ():
                uncertain = self.tombstones.is_uncertain(want_id)
                yield Missing(want_id, indices, MissingReason.UNCERTAIN if uncertain else MissingReason.UNKNOWN)

    def _bury(self, want_id: WantId) -> None:
        if not self.tombstones.covers(want_id):
            self.tombstones.bury(want_id, None)


class Ledgers:
    """Those of all peers that have ever asked for something, and have not ended."""

    def __init__(self, settings: ExchangeSettings) -> None:
        self._settings = settings
        self._ledgers: dict[EngineId, Ledger] = {}

    def of(self, peer: EngineId) -> Ledger:
        """The peer's."""
        return self._ledgers.setdefault(peer, Ledger(self._settings))

    def known(self, peer: EngineId) -> Ledger | None:
        """The peer's, if it has asked for something."""
        return self._ledgers.get(peer)

    def wants_of(self, peer: EngineId) -> list[ServedWant]:
        """The peer's wants that are not over."""
        ledger = self._ledgers.get(peer)
        return list(ledger.active.values()) if ledger is not None else []

    def wants(self) -> list[ServedWant]:
        """All peers'."""
        return [want for ledger in self._ledgers.values() for want in ledger.active.values()]

    def close(self, peer: EngineId) -> None:
        """The peer has ended: forget it, if no want of it is active."""
        if not self.wants_of(peer):
            self._ledgers.pop(peer, None)
