# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - `Seconds` makes nothing, it only names the unit
"""The exchange's numbers."""

from dataclasses import dataclass

from tandem_connector.exchange.types import Seconds


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """Times and bounds of one engine's exchange. The defaults suit a pool of some ten thousand blocks."""

    block_size: int = 16
    """Tokens per block, here and at every peer."""
    landing_ttl: Seconds = Seconds(5.0)
    """Time to live of a want that answers an offer."""
    post_margin: float = 0.1
    """Part of a want's time to live, at its end, in which the holder posts nothing more."""
    nobody_grace: Seconds = Seconds(2.0)
    """How long a holder waits for a request that will compute what is wanted, before it says that nobody will."""
    ping_interval: Seconds = Seconds(0.5)
    """How often a peer is told which wants are open there, while there are any."""
    cancel_patience: Seconds = Seconds(5.0)
    """How long a cancelled want may lack its acknowledgement before its blocks count as quarantined."""
    transport_bound: Seconds = Seconds(10.0)
    """How long after an engine's certain end the network may still deliver what it had posted."""
    quarantine_blocks: int = 1_024
    """Most blocks in quarantine. Beyond it nothing new is wanted, and the engine is unhealthy."""
    exposed_blocks: int = 1 << 31
    """Most own blocks that peers may write into at one time. When a peer falls silent, none of its can be used before it answers or
    has ended, not even by the request that they were for, and the engine must be able to go on with the others."""
    landing_blocks: int = 512
    """Most blocks that wait for offered content, over all peers."""
    landing_blocks_per_peer: int = 256
    pinned_blocks: int = 2_048
    """Most own blocks that are referenced for writes at one time; what is wanted beyond waits."""
    blocks_per_write: int = 256
    wants_per_peer: int = 1_024
    """Most wants of one peer that are served at one time."""
    hashes_per_peer: int = 262_144
    """Most blocks of all of them together; as many may be remembered as missing of those that are over. It bounds the memory that
    a peer can take, and is more than an engine has to ask for at one time: eight million tokens in blocks of 32."""
    tombstones_per_peer: int = 4_096
    offer_every: int = 8
    """Full blocks that a request computes between two offers while it decodes; 0: only when it ends."""
    move_batch: int = 256
    """Blocks that a move has on offer at one time."""
    move_share: float = 0.5
    """Part of the successor's pool that a move may fill. What comes later is evicted later there, so more would push out what
    came first, and was used last."""
    move_attempts: int = 3
    """How often in a row a successor may have no room for any block before the move ends."""
    offer_patience: Seconds = Seconds(2.0)
    """How long a move waits for the answer to an offer, and for room."""
