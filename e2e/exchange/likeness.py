# SPDX-License-Identifier: Apache-2.0
"""Whether two engines' greedy answers are the same, up to what arithmetic leaves open.

The same token's KV differs in its last bits when other blocks of tokens were computed with it, so log-probabilities
agree up to a rounding, and where two tokens are closer to each other than twice that, either may be the greatest. The rule:

* up to the first token that differs, each token's log-probability differs by less than the rounding, and so does that of every
  other token which both engines name at that position;
* at the first token that differs, each engine's own log-probabilities of the two are closer than twice the rounding; what
  comes after it has another history and is not compared;
* without such a token the answers are equally long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.engine.model import MODEL_NAME
from e2e.exchange.engine import Engine

ROUNDING: Final = 1e-3
"""By how much a log-probability (natural logarithm) may differ, with 32-bit numbers and the small model."""
TIE: Final = 2 * ROUNDING
NAMED: Final = 5
"""How many of the likeliest tokens an engine names at each position."""


@dataclass(frozen=True)
class Step:
    """One token of an answer."""

    token: int
    likely: Mapping[int, float]
    """Log-probabilities of the likeliest tokens at this position, and of the token itself."""


def steps(engine: Engine, ids: list[int], *, output: int, timeout: float = 120.0, **more: Any) -> list[Step]:
    """The greedy answer to a prompt, token by token.

    Raises:
        urllib.error.HTTPError: the engine answered with an error.
    """
    body = {
        "model": MODEL_NAME,
        "prompt": ids,
        "max_tokens": output,
        "temperature": 0.0,
        "logprobs": NAMED,
        "return_tokens_as_token_ids": True,
        **more,
    }
    told = engine.post("/v1/completions", body, timeout=timeout)["choices"][0]["logprobs"]
    return [
        Step(_id(token), {_id(name): value for name, value in likely.items()} | {_id(token): value})
        for token, value, likely in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"], strict=True)
    ]


def difference(expected: Sequence[Step], got: Sequence[Step], rounding: float = ROUNDING) -> str | None:
    """What makes these two answers different ones; None if they are the same by the rule above."""
    for position, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one.token != other.token:
            return _unless_tied(position, one, other, 2 * rounding)
        for token in one.likely.keys() & other.likely.keys():
            if abs(one.likely[token] - other.likely[token]) >= rounding:
                return f"at {position}: {token} has {one.likely[token]} and {other.likely[token]}"
    if len(expected) != len(got):
        return f"{len(expected)} and {len(got)} tokens"
    return None


def greatest_difference(expected: Sequence[Step], got: Sequence[Step]) -> float:
    """Of the log-probabilities that both name, up to the first token that differs."""
    greatest = 0.0
    for one, other in zip(expected, got, strict=False):
        if one.token != other.token:
            break
        common = one.likely.keys() & other.likely.keys()
        greatest = max(greatest, *(abs(one.likely[token] - other.likely[token]) for token in common))
    return greatest


def _unless_tied(position: int, one: Step, other: Step, tie: float) -> str | None:
    for likely in (one.likely, other.likely):
        if not {one.token, other.token} <= likely.keys():
            return f"at {position}: {one.token} and {other.token}, and neither engine takes them for equally likely"
        if abs(likely[one.token] - likely[other.token]) >= tie:
            return (
                f"at {position}: {one.token} and {other.token}, which have {likely[one.token]}, {likely[other.token]}"
            )
    return None


def _id(name: str) -> int:
    return int(name.removeprefix("token_id:"))
