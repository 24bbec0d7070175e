# SPDX-License-Identifier: Apache-2.0
"""When to ping a peer, and when its silence means something.

It belongs to whoever reads the sockets, not to the scheduler's thread: that may compute for seconds without looking at
a message, and must neither call its peers silent for that nor seem silent itself. It tells the exchange by
`peer_silent` and `peer_back`.
"""

from dataclasses import dataclass
from typing import Final

from tandem_connector.exchange.peers import PeerState
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import EngineId, Seconds


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """Times of the pings."""

    interval: float = 0.5
    """Seconds between two pings of a peer from which nothing else is heard."""
    silent_after: float = 5.0
    """Seconds without a message after which a peer counts as silent.

    Ten pings. A thread that only answers messages needs a slice of a core and Python's lock: four ranks that spin on two
    cores kept one waiting for more than 2 s. What it must be short against is `patience` (20 s), for which a request
    waits for a P at most. A P that dies is noticed sooner, because its HTTP connection ends; only one that is frozen, or
    cut off, is noticed by its silence, and being wrong of it costs what was wanted of it.
    """
    silent_interval: float = 2.0
    """Seconds between two pings of a silent peer."""


DEFAULTS: Final = LivenessSettings()


@dataclass(frozen=True, slots=True)
class LivenessChange:
    """What is due now."""

    ping: tuple[EngineId, ...]
    """Peers to send a Ping."""
    silent: tuple[EngineId, ...]
    """Peers that have just become silent."""


@dataclass(slots=True)
class _Heard:
    at: Seconds
    state: PeerState = PeerState.ALIVE


class Liveness:
    """All peers that there is a connection to."""

    def __init__(self, settings: LivenessSettings = DEFAULTS) -> None:
        self._settings = settings
        self._heard: dict[EngineId, _Heard] = {}
        self._due: Timers[EngineId] = Timers()

    def connected(self, peer: EngineId, now: Seconds) -> None:
        """Watch this peer from now on."""
        if peer not in self._heard:
            self._heard[peer] = _Heard(now)
            self._due.set(peer, Seconds(now + self._settings.interval))

    def heard(self, peer: EngineId, now: Seconds) -> bool:
        """Something came from the peer; True if it was silent before."""
        heard = self._heard.get(peer)
        if heard is None:
            return False
        heard.at = now
        was_silent, heard.state = heard.state is PeerState.SILENT, PeerState.ALIVE
        return was_silent

    def forget(self, peer: EngineId) -> None:
        """The peer is gone, or is no peer any more."""
        self._heard.pop(peer, None)
        self._due.cancel(peer)

    def state(self, peer: EngineId) -> PeerState | None:
        """What is thought of the peer; None if it is not watched."""
        heard = self._heard.get(peer)
        return heard.state if heard is not None else None

    def tick(self, now: Seconds) -> LivenessChange:
        """What is due. Call `heard` for all that has arrived first: a process that was stopped must not blame its peers."""
        ping, silent = [], []
        for peer in self._due.pop_due(now):
            heard = self._heard[peer]
            if heard.state is PeerState.ALIVE and now - heard.at >= self._settings.silent_after:
                heard.state = PeerState.SILENT
                silent.append(peer)
            ping.append(peer)
            is_silent = heard.state is PeerState.SILENT
            again = self._settings.silent_interval if is_silent else self._settings.interval
            self._due.set(peer, Seconds(now + again))
        return LivenessChange(tuple(ping), tuple(silent))

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._due.next_due()
