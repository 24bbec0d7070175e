# SPDX-License-Identifier: Apache-2.0
"""A conversation that was held, and what each of its turns cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.account import PoolsAccount
from e2e.conversation import Turn


@dataclass(frozen=True)
class Row:
    """A turn and what it cost."""

    turn: Turn
    account: PoolsAccount

    @property
    def computed(self) -> int:
        """Prompt tokens that all engines together computed."""
        return self.account.prefill.computed + self.account.decode.computed


@dataclass(frozen=True)
class HeldConversation:
    """The turns over one way to run the model."""

    way: str
    """Its name in tables and charts."""
    rows: tuple[Row, ...]
    one_engine: bool = False
    """There are no pools: what was computed is in `account.decode`."""

    @property
    def computed_later(self) -> int:
        """Prompt tokens computed after the first turn, in which nobody can have anything cached."""
        return sum(row.computed for row in self.rows[1:])


def first_difference(conversations: Sequence[HeldConversation]) -> int | None:
    """The number of the first turn in which the answers are not the same; None when all are."""
    turns = zip(*(conversation.rows for conversation in conversations), strict=True)
    for number, rows in enumerate(turns, start=1):
        if len({row.turn.text for row in rows}) > 1:
            return number
    return None
