# SPDX-License-Identifier: Apache-2.0
"""What engines' own sums tell of each pair.

An engine counts what it received and what it wrote, by purpose and not by peer. So what went over one pair is known where an end of
it has no other pair that it could have come from or gone to, as then the end's sum is the pair's; and it is nothing where an end moved
nothing. Ends are read a moment apart, and an engine may still bring to an end what it had begun with a peer that it isn't paired with
any more: this is to look at, not to add up.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

Amounts: TypeAlias = Mapping[str, float | None]
"""Of each engine pod in one direction; None: not known."""


class Wire(NamedTuple):
    """A pair in one direction, by the names of its pods."""

    sender: str
    receiver: str


def told(wires: Collection[Wire], written: Amounts, received: Amounts) -> dict[Wire, float | None]:
    """What went over each wire; None: that can't be told.

    Args:
        wires: all that there are.
        written: by sender, to all its receivers.
        received: by receiver, from all its senders.
    """
    used = [each for each in wires if written.get(each.sender) != 0 and received.get(each.receiver) != 0]
    of_sender = Counter(each.sender for each in used)
    of_receiver = Counter(each.receiver for each in used)

    def of(wire: Wire) -> float | None:
        ends = (
            (received.get(wire.receiver), of_receiver[wire.receiver]),
            (written.get(wire.sender), of_sender[wire.sender]),
        )
        if wire not in used:
            # An end that moved something, and has no wire that it can have gone over, contradicts the others.
            return 0.0 if all(not amount or others for amount, others in ends) else None
        return next((amount for amount, others in ends if amount is not None and others == 1), None)

    return {wire: of(wire) for wire in wires}
