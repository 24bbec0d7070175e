# SPDX-License-Identifier: Apache-2.0
"""What block names are derived from, on its way from the engine that offers blocks to one that publishes KV events."""

from collections.abc import Sequence
from itertools import chain

from tandem_connector.contract.messages import MAX_DERIVED, MAX_TOKENS, Derivations, Offer
from tandem_connector.exchange.types import Derivation, OfferedRun


def most_derived(block_size: int) -> int:
    """How many blocks of so many tokens an offer may have that says what their names are derived from."""
    return min(MAX_DERIVED, max(1, MAX_TOKENS // block_size))


def joined(run: OfferedRun, derivations: Sequence[Derivation]) -> Derivations | None:
    """Those of a run's blocks as a message has them; None if the blocks don't follow each other as the run says."""
    parents = [each.parent for each in derivations]
    if parents[1:] != list(run.hashes[:-1]) or (parents[0] is None) != (run.position == 0):
        return None
    return Derivations(
        parent=parents[0],
        tokens=tuple(chain.from_iterable(each.tokens for each in derivations)),
        keys=tuple(each.keys for each in derivations),
    )


def derivations_flaw(offer: Offer, block_size: int) -> str | None:
    """What is wrong with what an offer says of its blocks' names, by their number; None if nothing is."""
    if offer.derivations is None or len(offer.derivations.tokens) == len(offer.hashes) * block_size:
        return None
    return f"{len(offer.derivations.tokens)} tokens in {len(offer.hashes)} blocks of {block_size}"


def derivation_of(offer: Offer, index: int, block_size: int) -> Derivation | None:
    """Of one block of an offer without a flaw; None if the offer doesn't say."""
    derived = offer.derivations
    if derived is None:
        return None
    return Derivation(
        parent=offer.hashes[index - 1] if index else derived.parent,
        tokens=derived.tokens[index * block_size : (index + 1) * block_size],
        keys=derived.keys[index],
    )
