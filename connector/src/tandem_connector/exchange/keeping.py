# SPDX-License-Identifier: Apache-2.0
"""The blocks of own wants that have ended for their owners, until no write can reach them.

They are released when every index is written or missing, when the holder acknowledged the cancel, or when the holder has
certainly ended and the network can't deliver any more of what it had posted. Until then a write may still arrive, and must
find a block that nobody else uses.
"""

from collections.abc import Callable
from typing import TypeAlias

from tandem_connector.contract.messages import Cancel
from tandem_connector.exchange.commands import Send
from tandem_connector.exchange.own_want import OwnWant, WantState
from tandem_connector.exchange.peers import PeerState
from tandem_connector.exchange.quarantine import Quarantine
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import Seconds

OnReleased: TypeAlias = Callable[[OwnWant], None]
"""Told once of each want whose blocks nobody writes into any more."""


class Keeping:
    """Of one engine."""

    def __init__(self, shared: Shared, on_released: OnReleased) -> None:
        self._settings = shared.settings
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._on_released = on_released
        self._timers: Timers[OwnWant] = Timers()
        self.quarantine = Quarantine(shared.settings.quarantine_blocks, shared.outbox)

    def hold(self, want: OwnWant, now: Seconds) -> None:
        """Writes for the want, which has ended, may be on their way: keep its blocks, and ask the holder if it can be asked."""
        match self._peers.state(want.peer):
            case PeerState.ALIVE:
                self._await_acknowledgement(want, now)
                self._outbox.put(Send(want.peer, Cancel(want.id)))
            case PeerState.SILENT:
                self._quarantine(want)
            case PeerState.GONE | None:
                self._quarantine(want)
                ended = self._peers.ended_at(want.peer)
                self._timers.set(want, Seconds((now if ended is None else ended) + self._settings.transport_bound))

    def let_go(self, want: OwnWant, now: Seconds) -> None:
        """No write for the ended want is in flight: release its blocks, now or when one that broke can't arrive any more."""
        if want.unsafe_until is None or want.unsafe_until <= now:
            self._release(want)
        else:
            self._quarantine(want)
            self._timers.set(want, want.unsafe_until)

    def peer_silent(self, want: OwnWant) -> None:
        """Nothing is heard from the holder: its acknowledgement isn't waited for."""
        if want.state is WantState.CANCELLING:
            self._quarantine(want)

    def peer_back(self, want: OwnWant, now: Seconds) -> None:
        """The holder is heard again, and is asked about what it has not acknowledged."""
        if want.state is WantState.QUARANTINED and (want.awaited or want.unsafe_until is None):
            self._unquarantine(want)
            self._await_acknowledgement(want, now)

    def tick(self, now: Seconds) -> None:
        """Do what is due."""
        for want in self._timers.pop_due(now):
            if want.state is WantState.CANCELLING:
                self._quarantine(want)
            else:
                self._release(want)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._timers.next_due()

    def _await_acknowledgement(self, want: OwnWant, now: Seconds) -> None:
        want.state = WantState.CANCELLING
        self._timers.set(want, Seconds(now + self._settings.cancel_patience))

    def _quarantine(self, want: OwnWant) -> None:
        self._timers.cancel(want)
        if want.state is not WantState.QUARANTINED:
            want.state = WantState.QUARANTINED
            self.quarantine.enter(want.blocks)

    def _unquarantine(self, want: OwnWant) -> None:
        if want.state is WantState.QUARANTINED:
            self.quarantine.leave(want.blocks)

    def _release(self, want: OwnWant) -> None:
        self._timers.cancel(want)
        self._unquarantine(want)
        self._on_released(want)
