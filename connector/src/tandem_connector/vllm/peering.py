# SPDX-License-Identifier: Apache-2.0
"""The peers of this engine, from joining to their end: what the exchange and asking hear of it, and to whom the ranks connect."""

import logging
from collections.abc import Callable
from typing import Final

from tandem_connector.contract.messages import Hello
from tandem_connector.contract.types import EngineId
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import Seconds
from tandem_connector.vllm.commands import DropPeer
from tandem_connector.vllm.draining import Draining
from tandem_connector.vllm.orders import AddPeerRanks, Order
from tandem_connector.vllm.parting import Parting
from tandem_connector.vllm.surroundings import Surroundings

_log = logging.getLogger(__name__)
ADDING_TAKES: Final = 2.0
"""Seconds for which an idle engine waits for what the ranks say of a new connection; they say only that it failed."""
READD_AFTER: Final = 2.0
"""Seconds after which the ranks connect anew to a peer that lives, and to which their connection broke."""


class Peering:
    """Of one engine; scheduler's thread."""

    def __init__(
        self, exchange: Exchange, draining: Draining, surroundings: Surroundings, order: Callable[[Order], None]
    ) -> None:
        """Without peers; `order` gives the ranks an order, after those that were given before."""
        self._exchange = exchange
        self._draining = draining
        self._surroundings = surroundings
        self._hellos: dict[EngineId, Hello] = {}
        self._parting = Parting()
        self._readd: dict[EngineId, Seconds] = {}
        self._adding_until: Seconds | None = None
        self._order = order

    # -- what happens -----------------------------------------------------------------------------------------------

    def joined(self, peer: EngineId, hello: Hello, now: Seconds) -> None:
        """The peer's Hello was accepted."""
        if not self._exchange.peer_connected(peer, hello.blocks, now, publishes=hello.publishes):
            _log.warning("peer_not_taken peer=%s why=its pod was said to be gone, so it counts as ended", peer)
            return
        self._hellos[peer] = hello
        if peer in self._parting.parted:
            # It joined in the moment in which it parted, or before the table is heard of by which it returned.
            self._parting.closed(peer, now)
            self._exchange.peer_parted(peer)
            return
        self._add(peer, hello, now)
        self._reached(peer, now)

    def silent(self, peer: EngineId, now: Seconds) -> None:
        """Nothing is heard of it."""
        self._draining.falls_silent(peer, now)
        self._exchange.peer_silent(peer, now)
        self._lost(peer)

    def back(self, peer: EngineId, now: Seconds) -> None:
        """It is heard again."""
        self._exchange.peer_back(peer, now)
        self._reached(peer, now)

    def gone(self, peer: EngineId, now: Seconds) -> None:
        """It has certainly ended."""
        self._exchange.peer_gone(peer, now)
        self._readd.pop(peer, None)
        was_closed = self._parting.over(peer)
        if self._hellos.pop(peer, None) is not None and not was_closed:
            self._order(DropPeer(peer))
        self._lost(peer)

    def parts(self, peer: EngineId, now: Seconds) -> None:
        """The peer table lists it no more, and doesn't say that its pod is gone."""
        self._parting.told(peer, now)

    def returned(self, peer: EngineId, now: Seconds) -> None:
        """The peer table lists it again."""
        was_closed = self._parting.over(peer)
        self._exchange.peer_returned(peer)
        hello = self._hellos.get(peer)
        if hello is not None and was_closed:
            self._add(peer, hello, now)
        if self._exchange.reaches(peer):
            self._reached(peer, now)

    def unwritable(self, peer: EngineId, now: Seconds) -> None:
        """A rank's connection to it broke, or could not be made."""
        if peer in self._hellos and not self._parting.is_closed(peer):
            self._readd[peer] = Seconds(now + READD_AFTER)

    def tick(self, now: Seconds) -> None:
        """Do what is due."""
        if self._adding_until is not None and self._adding_until <= now:
            self._adding_until = None
        for peer in self._parting.take_parted(now):
            self._exchange.peer_parted(peer)
        for peer in self._parting.take_left(now, self._exchange.has_settled_with):
            self._leave(peer, now)
        for peer in [peer for peer, due in self._readd.items() if due <= now]:
            del self._readd[peer]
            if (hello := self._hellos.get(peer)) is not None:
                self._add(peer, hello, now)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        due = (self._adding_until, self._parting.next_due(), *self._readd.values())
        return min((at for at in due if at is not None), default=None)

    def settle(self, now: Seconds) -> None:
        """Have the ranks close their connections to those that have parted, and with which nothing is under way any more."""
        for peer in self._parting.open:
            if peer in self._hellos and self._exchange.has_settled_with(peer):
                self._parting.closed(peer, now)
                self._readd.pop(peer, None)
                self._order(DropPeer(peer))

    def _leave(self, peer: EngineId, now: Seconds) -> None:
        """Close the connection to a peer that has parted, which counts as silent then; if it returns it joins anew."""
        self._hellos.pop(peer, None)
        self._surroundings.leave(peer)
        self._exchange.peer_silent(peer, now)
        self._lost(peer)
        _log.info("peer_left peer=%s", peer)

    def _reached(self, peer: EngineId, now: Seconds) -> None:
        self._draining.reached(peer, now)
        if self._surroundings.asker is not None:
            self._surroundings.asker.peer_reachable(peer)

    def _lost(self, peer: EngineId) -> None:
        if self._surroundings.asker is not None:
            self._surroundings.asker.peer_unreachable(peer)

    def _add(self, peer: EngineId, hello: Hello, now: Seconds) -> None:
        self._adding_until = Seconds(now + ADDING_TAKES)
        self._order(AddPeerRanks(peer, hello.ranks, hello.blocks))

    # -- questions --------------------------------------------------------------------------------------------------

    @property
    def connected(self) -> frozenset[EngineId]:
        """Peers that have joined, and have neither parted nor ended."""
        return frozenset(self._hellos) - self._parting.parted

    @property
    def any_publishes(self) -> bool:
        """Whether a peer publishes KV events."""
        return any(hello.publishes for hello in self._hellos.values())

    @property
    def adding(self) -> bool:
        """The ranks may have something to say of a new connection."""
        return self._adding_until is not None
