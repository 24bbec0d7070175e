# SPDX-License-Identifier: Apache-2.0
"""What a conversation asks: long tool results and short replies, in turns that grow to a given length."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from e2e.bench.kv.client import Reply
from e2e.exchange.prompts import Prompt

_PARTS = (10, 1, 8, 1, 5, 2, 12, 1)
"""How the user's tokens are spread over the turns, again and again: an agent's tool results, and what its user says."""


@dataclass(frozen=True)
class Script:
    """Sizes of all turns of a conversation, in tokens."""

    asked: tuple[int, ...]
    """What each turn adds to what was said before."""
    output: int
    """Of each answer."""

    @classmethod
    def growing_to(cls, tokens: int, turns: int, output: int) -> Self:
        """`turns` turns whose last answer ends at about `tokens` tokens.

        Raises:
            ValueError: that leaves no token for a turn.
        """
        parts = [_PARTS[turn % len(_PARTS)] for turn in range(turns)]
        unit = (tokens - turns * output) // sum(parts)
        if unit < 2:
            raise ValueError(f"{turns} turns with answers of {output} tokens do not fit into {tokens} tokens")
        unit -= (unit + 1) % 2  # odd, so that turns don't end where blocks do
        return cls(tuple(part * unit for part in parts), output)

    @property
    def longest(self) -> int:
        """Tokens at the end."""
        return sum(self.asked) + len(self.asked) * self.output


@dataclass
class Conversation:
    """One that is being held. Two with different seeds have no block in common."""

    seed: int
    model: Path
    said: list[int] = field(default_factory=list)
    """All tokens until now, answers included."""
    handle: dict[str, object] | None = None
    """Upstream's, for the next turn's prefill."""

    def ask(self, tokens: int) -> list[int]:
        """Add so many new tokens to what was said; the prompt."""
        self.said += Prompt(self.seed + len(self.said), tokens).ids(self.model)
        return list(self.said)

    def answered(self, reply: Reply) -> None:
        """Take the answer into what was said."""
        self.said += reply.tokens
