# SPDX-License-Identifier: Apache-2.0
"""Whether a P is asked for a request's prefill."""

from dataclasses import dataclass
from typing import TypeAlias

from tandem_connector.asking.settings import AskingSettings
from tandem_connector.asking.types import Arrival, LocalReason, Obstacle


@dataclass(frozen=True, slots=True)
class Local:
    """D computes the prompt itself."""

    why: LocalReason | Obstacle


@dataclass(frozen=True, slots=True)
class Ask:
    """A P is asked."""

    start: int
    """Index of the first block that D lacks."""
    stop: int
    """Index after the last one that D can use: it computes the last token, so the block of that one, itself."""
    missing_tokens: int
    """Prompt tokens beyond D's own cache."""
    held_tokens: int
    """What P may fetch from D: the tokens before `start`, or 0 when it is not to fetch."""


Decision: TypeAlias = Local | Ask


def decide(arrival: Arrival, held_blocks: int, settings: AskingSettings) -> Decision:
    """Whether D asks, and for which blocks.

    Args:
        arrival: the request.
        held_blocks: how many of the prompt's first blocks are in D's prefix cache.
        settings: the threshold, the block size, and whether P fetches.
    """
    for obstacle in Obstacle:
        if obstacle in arrival.obstacles:
            return Local(obstacle)
    tokens, size = len(arrival.prompt), settings.block_size
    stop = min(max(tokens - 1, 0) // size, len(arrival.hashes))
    start = min(max(held_blocks, 0), stop)
    if start == stop:
        return Local(LocalReason.CACHED if start else LocalReason.FEW_MISSING)
    missing = tokens - start * size
    if missing <= settings.above_tokens:
        return Local(LocalReason.FEW_MISSING)
    return Ask(start, stop, missing, start * size if settings.reverse.fetches else 0)
