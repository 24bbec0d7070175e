# SPDX-License-Identifier: Apache-2.0
"""What a peer's message means: which part of the exchange hears of it, and what is wrong with it if it breaks the protocol."""

from collections.abc import Iterable
from typing import assert_never

from tandem_connector.contract.messages import (
    Cancel,
    CancelAck,
    Envelope,
    Gone,
    Have,
    Hello,
    Missing,
    Offer,
    Ping,
    Pong,
    Query,
    Took,
    Want,
)
from tandem_connector.exchange.commands import DropPeer, Send
from tandem_connector.exchange.derivations import derivations_flaw
from tandem_connector.exchange.landing import take_offer
from tandem_connector.exchange.moving import Moving
from tandem_connector.exchange.peers import Peer
from tandem_connector.exchange.serving import Serving
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.types import BlockHash, EngineId, Purpose, Seconds
from tandem_connector.exchange.wanting import Wanting


class Hearing:
    """Of one engine."""

    def __init__(self, engine: EngineId, shared: Shared, wanting: Wanting, serving: Serving, moving: Moving) -> None:
        self._engine = engine
        self._shared = shared
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._tally = shared.tally
        self._wanting = wanting
        self._serving = serving
        self._moving = moving

    def receive(self, envelope: Envelope, now: Seconds, *, takes_offers: bool) -> None:
        """A message has arrived. The engine takes what peers offer, or doesn't."""
        if envelope.target != self._engine:
            self._tally.misaddressed += 1
            if not isinstance(envelope.message, Gone):
                self._outbox.put(Send(envelope.sender, Gone(envelope.target)))
            return
        peer = self._peers.of(envelope.sender)
        if peer is None:
            self._tally.strangers += 1
            return
        why = self._understand(envelope, peer, now, takes_offers=takes_offers)
        if why is not None:
            self._tally.violations += 1
            self._outbox.put(DropPeer(envelope.sender, why))

    def _understand(self, envelope: Envelope, peer: Peer, now: Seconds, *, takes_offers: bool) -> str | None:
        """Act on the message, or say what is wrong with it."""
        sender = envelope.sender
        match envelope.message:
            case Want() as want:
                if max(want.destinations) >= peer.blocks:
                    return f"want {want.want}: block {max(want.destinations)} of a pool of {peer.blocks}"
                self._moving.wanted(sender, want.offer)
                self._serving.wanted(sender, want, now)
            case Missing() as missing:
                if not self._wanting.missing(sender, missing, now):
                    return f"want {missing.want}: an index beyond its end is missing"
            case Cancel() as cancel:
                self._serving.cancelled(sender, cancel.want, now)
            case CancelAck() as acknowledgement:
                self._wanting.acknowledged(sender, acknowledgement, now)
            case Offer() as offer:
                return self._offered(sender, offer, now, takes=takes_offers)
            case Took(offer_id, left):
                self._moving.took(sender, offer_id, left, now)
            case Query() as query:
                self._outbox.put(Send(sender, Have(query.query, self._prefix(query.hashes))))
            case Ping() as ping:
                self._serving.pinged(sender, ping, now)
            case Hello() | Have() | Pong() | Gone():
                pass
            case unknown:
                assert_never(unknown)
        return None

    def _offered(self, sender: EngineId, offer: Offer, now: Seconds, *, takes: bool) -> str | None:
        why = derivations_flaw(offer, self._shared.settings.block_size)
        if why is not None:
            return f"offer {offer.offer}: {why}"
        left = len(offer.hashes)
        if takes and not self._wanting.quarantine.full and self._peers.works_with(sender):
            left = take_offer(sender, offer, self._shared, self._wanting, now)
        if offer.purpose is Purpose.MOVE:
            self._outbox.put(Send(sender, Took(offer.offer, left)))
        return None

    def _prefix(self, hashes: Iterable[BlockHash]) -> int:
        """How many of these, from the first on, are in the cache."""
        length = 0
        for block_hash in hashes:
            if self._shared.pool.lookup(block_hash) is None:
                break
            length += 1
        return length
