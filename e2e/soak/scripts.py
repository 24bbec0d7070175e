# SPDX-License-Identifier: Apache-2.0
"""What clients say: a fixed set of conversations, so that a plain engine can be asked beforehand what is right.

Each has a main line of three turns, a fork beside the third, the same with an early message edited, and one more turn of a
client that strips the beginning of earlier answers, as is done with reasoning. All begin with the same system prompt.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from e2e.exchange.prompts import Prompt

SYSTEM = Prompt(seed=1, tokens=180)


@dataclass(frozen=True)
class Said:
    """What was answered to an earlier turn of the same conversation, without its first tokens."""

    turn: int
    skipped: int = 0


Part: TypeAlias = Prompt | Said


@dataclass(frozen=True)
class Turn:
    """One request: its prompt, in parts, and how many tokens it is answered with."""

    parts: tuple[Part, ...]
    output: int

    def ids(self, model: Path, answers: Mapping[int, Sequence[int]]) -> list[int]:
        """The prompt's token ids, given those of the answers to the turns before."""
        ids: list[int] = []
        for part in self.parts:
            match part:
                case Prompt():
                    ids += part.ids(model)
                case Said(turn, skipped):
                    ids += answers[turn][skipped:]
        return ids


@dataclass(frozen=True)
class Script:
    """One conversation."""

    name: str
    turns: tuple[Turn, ...]
    rounds: tuple[tuple[int, ...], ...]
    """Which turns are asked, one round after another; those of one round at the same time."""


def scripts(count: int) -> tuple[Script, ...]:
    """The first so many conversations; always the same. Their prompts have 240 to 2,400 tokens."""
    return tuple(_script(number) for number in range(count))


def _script(number: int) -> Script:
    chosen = random.Random(f"script {number}")
    first, second, third, fourth, forked = (
        Prompt(1_000 + 10 * number + place, chosen.randint(*between))
        for place, between in enumerate(((60, 1_200), (20, 300), (20, 300), (20, 200), (20, 300)))
    )
    edited = Prompt(first.seed + 5, first.tokens)
    opening = (SYSTEM, first)
    main = (*opening, Said(0), second, Said(1), third)
    turns = (
        opening,
        main[:4],
        main,
        (*opening, Said(0), forked),
        (SYSTEM, edited, *main[2:]),
        (*opening, Said(0, skipped=9), second, Said(1, skipped=5), third, Said(2), fourth),
    )
    return Script(
        f"script-{number}",
        tuple(Turn(parts, chosen.randint(16, 64)) for parts in turns),
        ((0,), (1,), (2, 3), (4,), (5,)),
    )
