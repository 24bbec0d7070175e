# SPDX-License-Identifier: Apache-2.0
"""What is offered to peers: the blocks that a request computes, in batches and when it ends."""

from dataclasses import dataclass, field
from itertools import count

from tandem_connector.contract.messages import MAX_BLOCKS, Offer
from tandem_connector.contract.types import OfferId
from tandem_connector.exchange.commands import Send
from tandem_connector.exchange.derivations import joined, most_derived
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.types import BlockHash, EngineId, FreshBlocks, OfferedRun, Purpose, RequestId


@dataclass(slots=True)
class _Computed:
    """What a request computed since the last offer: consecutive blocks."""

    peer: EngineId
    position: int = 0
    hashes: list[BlockHash] = field(default_factory=list)


class Offering:
    """Requests whose blocks go back to a peer, and offers in general."""

    def __init__(self, shared: Shared) -> None:
        self._settings = shared.settings
        self._pool = shared.pool
        self._peers = shared.peers
        self._outbox = shared.outbox
        self._tally = shared.tally
        self._ids = count(1)
        self._requests: dict[RequestId, _Computed] = {}

    def to(self, request: RequestId, peer: EngineId) -> None:
        """Offer to this peer what the request computes from now on."""
        self._requests[request] = _Computed(peer)

    def computed(self, fresh: FreshBlocks) -> None:
        """A step fills these blocks: offer them when there are enough."""
        computed = self._requests.get(fresh.request)
        if computed is None or not fresh.hashes:
            return
        if fresh.position != computed.position + len(computed.hashes):
            # The request was preempted and computes blocks again, or had blocks in between from elsewhere.
            self._flush(computed)
            computed.position = fresh.position
        computed.hashes.extend(fresh.hashes)
        if self._settings.offer_every and len(computed.hashes) >= self._settings.offer_every:
            self._flush(computed)

    def request_ended(self, request: RequestId, *, offer: bool) -> None:
        """Offer the rest of what the request computed, or forget it."""
        computed = self._requests.pop(request, None)
        if computed is not None and offer:
            self._flush(computed)

    def _flush(self, computed: _Computed) -> None:
        if computed.hashes:
            self.offer(computed.peer, Purpose.REVERSE_PUSH, OfferedRun(computed.position, tuple(computed.hashes)))
            computed.position += len(computed.hashes)
            computed.hashes.clear()

    def offer(self, peer: EngineId, purpose: Purpose, run: OfferedRun) -> OfferId:
        """Offer the blocks to the peer; the id of the last message, if it takes several."""
        publishes, most = self._publishes(peer), self.most(peer)
        for start in range(0, len(run.hashes), most):
            part = OfferedRun(run.position + start, run.hashes[start : start + most])
            offer = OfferId(next(self._ids))
            self._tally.blocks_offered[purpose] += len(part.hashes)
            known = self._pool.derivations(part.hashes) if publishes else None
            derived = joined(part, known) if known else None
            self._outbox.put(Send(peer, Offer(offer, purpose, part.position, part.hashes, derived)))
        return offer

    def most(self, peer: EngineId) -> int:
        """Blocks that one message to this peer may offer."""
        return most_derived(self._settings.block_size) if self._publishes(peer) else MAX_BLOCKS

    def _publishes(self, peer: EngineId) -> bool:
        receiver = self._peers.of(peer)
        return receiver is not None and receiver.publishes

    def peer_lost(self, peer: EngineId) -> None:
        """Nothing more is offered to this peer."""
        for request in [request for request, computed in self._requests.items() if computed.peer == peer]:
            del self._requests[request]

    def clear(self) -> None:
        """What was computed until now is not to be offered: its names are void."""
        for computed in self._requests.values():
            computed.position += len(computed.hashes)
            computed.hashes.clear()
