# SPDX-License-Identifier: Apache-2.0
"""What clients say: a fixed set of conversations, so that a plain engine can be asked beforehand what is right.

The user's words are the same whatever is answered, and what stands in the history is what the plain engine answered, so that
every turn has one right answer.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

TURNS = 5


@dataclass(frozen=True)
class Talk:
    """One conversation."""

    name: str
    system: str
    said: tuple[str, ...]
    """By the user, turn by turn."""
    output: tuple[int, ...]
    """Tokens of each answer."""

    def messages(self, turn: int, answers: Sequence[str]) -> list[dict[str, str]]:
        """All that is sent for a turn, given the answers to those before."""
        messages = [{"role": "system", "content": self.system}]
        for said, answer in zip(self.said[:turn], answers[:turn], strict=True):
            messages += [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]
        return [*messages, {"role": "user", "content": self.said[turn]}]


def talks(count: int) -> tuple[Talk, ...]:
    """The first so many conversations; always the same. Their prompts grow from 200 tokens to some 2,500."""
    return tuple(_talk(number) for number in range(count))


def _talk(number: int) -> Talk:
    chosen = random.Random(f"talk {number}")

    def line() -> str:
        return f"pod decode-{chosen.randrange(100)} took over session {chosen.randrange(10_000)}"

    lines = (chosen.randint(12, 40), *(chosen.randint(2, 14) for _ in range(TURNS - 1)))
    return Talk(
        f"talk-{number}",
        # At the beginning, so that two conversations have no block in common.
        f"{number:04d} is the shift whose log this is; answer in plain words.",
        tuple("; ".join(line() for _ in range(count)) for count in lines),
        tuple(chosen.randint(24, 96) for _ in range(TURNS)),
    )
