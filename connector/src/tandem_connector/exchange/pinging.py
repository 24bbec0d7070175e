# SPDX-License-Identifier: Apache-2.0
"""Tells each holder which wants are open there, so that a lost message is noticed by either side."""

from collections.abc import Iterable, Mapping

from tandem_connector.contract.messages import MAX_WANTS_IN_PING, Ping
from tandem_connector.exchange.commands import Send
from tandem_connector.exchange.own_want import OwnWant, WantState
from tandem_connector.exchange.peers import PeerState
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import EngineId, Seconds, WantId


class Pinging:
    """Pings the peers that own wants are at, and once more when the last of them is over."""

    def __init__(self, shared: Shared) -> None:
        self._interval = shared.settings.ping_interval
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._due: Timers[EngineId] = Timers()
        self.waiting_tokens = 0

    def opened(self, peer: EngineId, now: Seconds) -> None:
        """A want was sent to the peer."""
        if peer not in self._due:
            self._due.set(peer, Seconds(now + self._interval))

    def ask_now(self, peer: EngineId, now: Seconds) -> None:
        """Ping the peer at the next tick."""
        self._due.set(peer, now)

    def tick(self, wants: Mapping[EngineId, Mapping[WantId, OwnWant]], next_want: WantId, now: Seconds) -> None:
        """Send what is due, given the wants that are not released, the oldest first."""
        for peer in self._due.pop_due(now):
            if self._peers.state(peer) is PeerState.ALIVE:
                of_peer = wants.get(peer, {})
                self._outbox.put(Send(peer, self._ping(of_peer.values(), next(iter(of_peer), next_want))))
                if of_peer:
                    self._due.set(peer, Seconds(now + self._interval))

    def _ping(self, wants: Iterable[OwnWant], oldest: WantId) -> Ping:
        listed = list(wants)
        opened = [want.id for want in listed if want.state is WantState.OPEN]
        ended = [want.id for want in listed if want.state is not WantState.OPEN]
        return Ping(
            open=tuple(opened[:MAX_WANTS_IN_PING]),
            cancelling=tuple(ended[:MAX_WANTS_IN_PING]),
            oldest=oldest,
            waiting_tokens=self.waiting_tokens,
        )

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._due.next_due()
