# SPDX-License-Identifier: Apache-2.0
"""What a benchmark says, turn by turn: words that follow from a seed and are in no other run."""

from hashlib import sha256, shake_256
from typing import Final

from tandem_operator.api.base import ApiModel

_TEXT: Final = (
    "above across answer apple autumn banner basket better bottle branch bridge bright butter candle carpet castle "
    "center circle coffee copper corner cotton dinner doctor dragon empire engine fabric family farmer finger flower "
    "forest friend garden ginger golden ground hammer harbor island jacket jungle kettle ladder leader letter linen "
    "little lumber marble market meadow mirror modern morning mother museum narrow needle number orange orchid paper "
    "pencil pepper planet pocket potato quiet rabbit random reason ribbon river rocket sailor saddle season secret "
    "silver simple singer sister smooth spider spring square stable stone street summer sunset table temple thread "
    "ticket timber tower travel tunnel valley velvet violet voyage wagon walnut water window winter wonder yellow"
)
_WORDS: Final = tuple(_TEXT.split())


class Plan(ApiModel):
    """What is to be asked."""

    seed: int
    conversations: int
    """At once."""
    turns: int
    """Of each conversation."""
    first_words: int
    """That the first turn adds."""
    words: int
    """That each later turn adds."""
    max_tokens: int
    """Of an answer, at most."""


def session_of(plan: Plan, conversation: int) -> str:
    """Names a conversation to a front door that keeps it on one engine; other seeds have others."""
    return sha256(f"{plan.seed}/{conversation}".encode()).hexdigest()[:16]


def said(plan: Plan, conversation: int, turn: int) -> str:
    """What the user adds in a turn, of which the first is 1.

    Caches go by prefix. So the very first characters are a conversation's own: nothing behind them can be found from another
    conversation, or from a run with another seed.
    """
    count = plan.first_words if turn == 1 else plan.words
    drawn = shake_256(f"{plan.seed}/{conversation}/{turn}".encode()).digest(2 * count)
    words = (_WORDS[int.from_bytes(drawn[at : at + 2]) % len(_WORDS)] for at in range(0, len(drawn), 2))
    text = f"Continue this list of words for as long as you can: {' '.join(words)}"
    return f"{session_of(plan, conversation)} {text}" if turn == 1 else text
