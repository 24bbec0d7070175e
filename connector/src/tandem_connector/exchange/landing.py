# SPDX-License-Identifier: Apache-2.0
"""What this engine takes of what a peer offers: what it lacks, within bounds."""

from tandem_connector.contract.messages import Offer
from tandem_connector.exchange.derivations import derivation_of
from tandem_connector.exchange.shared import Shared
from tandem_connector.exchange.types import EngineId, Landing, Seconds
from tandem_connector.exchange.wanting import Wanting


def take_offer(peer: EngineId, offer: Offer, shared: Shared, wanting: Wanting, now: Seconds) -> int:
    """Want the blocks of the offer that are neither cached nor on their way, the first ones if there is no room for all.

    The first ones, because a block of a sequence is of use only with all before it.

    Returns:
        How many are lacking and not wanted.
    """
    settings, declined = shared.settings, shared.tally.blocks_declined
    lacking = [
        (block_hash, offset)
        for offset, block_hash in enumerate(offer.hashes)
        if shared.pool.lookup(block_hash) is None and block_hash not in wanting.incoming
    ]
    landing = wanting.incoming.landing
    room = min(
        shared.pool.room(landing),
        settings.landing_blocks - landing,
        settings.landing_blocks_per_peer - wanting.incoming.landing_of(peer),
        settings.exposed_blocks - wanting.exposed,
    )
    taken = lacking[: max(0, room)]
    blocks = shared.pool.take(len(taken)) if taken else None
    if blocks is None:
        declined[offer.purpose] += len(lacking)
        return len(lacking)
    declined[offer.purpose] += len(lacking) - len(taken)
    wanted = Landing(
        offer=offer.offer,
        purpose=offer.purpose,
        hashes=tuple(block_hash for block_hash, _ in taken),
        blocks=blocks,
        positions=tuple(offer.position + offset for _, offset in taken),
        derivations=tuple(derivation_of(offer, offset, settings.block_size) for _, offset in taken),
        ttl=settings.landing_ttl,
    )
    wanting.open(peer, wanted, now)
    return len(lacking) - len(taken)
