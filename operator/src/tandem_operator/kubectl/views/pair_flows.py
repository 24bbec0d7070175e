# SPDX-License-Identifier: Apache-2.0
"""What went over each pair, as its two engines count it by peer.

Ends are read a moment apart, so their counts differ by what moved in between: this is to look at, not to add up.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tandem_connector.contract.messages import Purpose
from tandem_operator.api.base import ApiModel
from tandem_operator.kubectl.views.engine import Pair, PairState
from tandem_operator.kubectl.views.engine_metrics import ByPeer

FORWARD: Final = frozenset({Purpose.FORWARD})
REVERSE: Final = frozenset({Purpose.REVERSE_PUSH, Purpose.REVERSE_FETCH})
"""Purposes from decode to prefill. `MOVE` is between engines of one role, which are no pair."""


class PairFlow(ApiModel):
    """One pair, with bytes of KV: by the second, or in all."""

    pair: Pair
    forward: float | None
    """From prefill to decode; None: neither end was read, or none of them tells of the other."""
    reverse: float | None
    """From decode to prefill."""

    @property
    def amount(self) -> float:
        """Both ways together, as far as it is known."""
        return (self.forward or 0) + (self.reverse or 0)


@dataclass(frozen=True)
class Counted:
    """What an engine says of each of its peers."""

    received: ByPeer
    written: ByPeer


MOST: Final = 24
"""Pairs that are listed at once. A mesh of 8 and 16 engines has 128."""


def most_first(flows: Sequence[PairFlow]) -> tuple[Sequence[PairFlow], Sequence[PairFlow]]:
    """The pairs to list, and those that are too many: pairs that fail come before those that most goes over.

    A few are listed as they are, so that each has its place in every look.
    """
    if len(flows) <= MOST:
        return flows, ()
    ordered = sorted(flows, key=lambda flow: (flow.pair.state is not PairState.FAILED, -flow.amount))
    return ordered[:MOST], ordered[MOST:]


def pair_flows(pairs: Collection[Pair], counted: Mapping[str, Counted]) -> tuple[PairFlow, ...]:
    """What went over these pairs; `counted` has the engines that were read, by pod."""
    return tuple(
        PairFlow(
            pair=pair,
            forward=_between(pair.prefill, pair.decode, FORWARD, counted),
            reverse=_between(pair.decode, pair.prefill, REVERSE, counted),
        )
        for pair in pairs
    )


def _between(sender: str, receiver: str, purposes: Collection[Purpose], counted: Mapping[str, Counted]) -> float | None:
    """What arrived, if the receiver tells; else what the sender says that it wrote."""
    into, out_of = counted.get(receiver), counted.get(sender)
    ends = (into.received.get(sender) if into else None, out_of.written.get(receiver) if out_of else None)
    known = next((end for end in ends if end is not None), None)
    return None if known is None else sum(known.get(purpose, 0) for purpose in purposes)
