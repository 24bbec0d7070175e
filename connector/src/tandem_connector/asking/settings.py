# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - `Seconds` makes nothing, it only names the unit
"""The numbers by which decode asks for prefills."""

from dataclasses import dataclass

from tandem_connector.contract.messages import MAX_TTL
from tandem_connector.contract.reverse import Reverse
from tandem_connector.exchange.types import Seconds


@dataclass(frozen=True, slots=True)
class AskingSettings:
    """All of them; `block_size` is the engine's, the others have defaults.

    Raises:
        ValueError: a number is out of bounds; the text names it.
    """

    block_size: int
    """Tokens per KV block."""
    above_tokens: int = 256
    """A prefill is asked for when more prompt tokens than this are missing; the resource's `disaggregateAboveTokens`."""
    reverse: Reverse = Reverse.PUSH_AND_FETCH
    load_factor: float = 1.25
    """A P is skipped when more tokens wait there than this many times the average."""
    load_slack_tokens: int = 2_048
    """A P where no more tokens wait than this is never skipped: they fit one step of its scheduler."""
    query_above_tokens: int = 4_096
    """Ps are asked what they hold when more prompt tokens than this are missing and no P is known to have the conversation."""
    query_patience: Seconds = Seconds(0.05)
    """How long their answers are waited for. A P that is amid a long step answers later, and would begin later as well."""
    attempts: int = 3
    """Most Ps that are asked for one prefill."""
    patience: Seconds = Seconds(20.0)
    """How long a P may show no progress, besides the time for what waits there before."""
    patience_per_token: Seconds = Seconds(0.01)
    """Time for each token that waits at a P or is to be computed there: below this speed it counts as slow."""
    rest: Seconds = Seconds(10.0)
    """How long a P that failed isn't asked."""
    remembered: int = 65_536
    """Most block hashes under which a conversation's P is remembered."""
    remembered_per_end: int = 4
    """How many of the last blocks of a prompt, and of a turn, it is remembered under."""

    def __post_init__(self) -> None:
        at_least = {
            "block_size": 1,
            "above_tokens": 0,
            "load_factor": 1,
            "load_slack_tokens": 0,
            "attempts": 1,
            "query_patience": 0,
            "patience": 0,
            "patience_per_token": 0,
            "rest": 0,
            "remembered": 1,
            "remembered_per_end": 1,
        }
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least {least}")

    def patience_for(self, tokens: int) -> Seconds:
        """How long a P may show no progress, when so many tokens are before what is asked for or belong to it."""
        return Seconds(min(self.patience + self.patience_per_token * tokens, MAX_TTL / 2))
