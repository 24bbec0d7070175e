# SPDX-License-Identifier: Apache-2.0
"""Which P is asked.

The one that has the conversation; else, for a long prompt, the one that holds the longest prefix of it; else the one
where the fewest tokens wait. Never one where more wait than a bound times the average ("consistent hashing with bounded
loads", Mirrokni, Thorup and Zadimoghaddam, 2016): at least one P is always within the bound.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tandem_connector.asking.settings import AskingSettings
from tandem_connector.exchange.types import BlockHash, EngineId


class How(StrEnum):
    """By what a P was chosen."""

    CONTINUITY = "continuity"
    """It has the conversation."""
    LONGEST_PREFIX = "longest_prefix"
    """It said that it holds more of the prompt than the others."""
    LEAST_LOADED = "least_loaded"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A P that may be asked."""

    engine: EngineId
    load: int
    """Prompt tokens that wait there, as far as is known."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Ask this one."""

    engine: EngineId
    how: How
    load: int


@dataclass(frozen=True, slots=True)
class LookAround:
    """Ask these first how much of the prompt they hold."""

    engines: tuple[EngineId, ...]


Choice: TypeAlias = Chosen | LookAround | None


def within_bound(candidates: Sequence[Candidate], tokens: int, settings: AskingSettings) -> tuple[Candidate, ...]:
    """Those that are not overloaded, if `tokens` more were spread over all; at least one of them, if there are any."""
    if not candidates:
        return ()
    average = (sum(candidate.load for candidate in candidates) + tokens) / len(candidates)
    bound = max(settings.load_slack_tokens, settings.load_factor * average)
    return tuple(candidate for candidate in candidates if candidate.load <= bound)


def choose(
    candidates: Sequence[Candidate],
    *,
    missing_tokens: int,
    first: BlockHash,
    home: EngineId | None,
    haves: Mapping[EngineId, int] | None,
    settings: AskingSettings,
) -> Choice:
    """The P to ask, the same for the same arguments in whatever order; None without candidates.

    Args:
        candidates: Ps that may be asked.
        missing_tokens: what the chosen one has to compute.
        first: hash of the prompt's first block. Among equals it decides, so that prompts with one beginning meet at one P,
            whichever D asks.
        home: the P that has the conversation.
        haves: how many of the prompt's first blocks each P said to hold; None if they were not asked.
        settings: the bounds.
    """
    fit = within_bound(candidates, missing_tokens, settings)
    if not fit:
        return None
    for candidate in fit:
        if candidate.engine == home:
            return Chosen(candidate.engine, How.CONTINUITY, candidate.load)
    if haves is None and len(fit) > 1 and missing_tokens > settings.query_above_tokens:
        return LookAround(tuple(sorted(candidate.engine for candidate in fit)))
    known = haves or {}

    def rank(candidate: Candidate) -> tuple[int, int, bytes]:
        tie = hashlib.sha256(first + candidate.engine.encode()).digest()
        return (-known.get(candidate.engine, 0), candidate.load, tie)

    best = min(fit, key=rank)
    how = How.LONGEST_PREFIX if known.get(best.engine, 0) else How.LEAST_LOADED
    return Chosen(best.engine, how, best.load)
