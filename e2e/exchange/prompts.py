# SPDX-License-Identifier: Apache-2.0
"""Prompts as token ids, and what a plain engine answers to them."""

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from e2e.engine.model import MODEL_NAME
from e2e.exchange.engines import Engine

OUTPUT = 24
"""Tokens of each answer."""
_SPECIAL = 300
"""Token ids below this are special, or bytes."""


@cache
def vocabulary_size(model: Path) -> int:
    """How many tokens the model knows."""
    size: int = json.loads((model / "config.json").read_text())["vocab_size"]
    return size


@dataclass(frozen=True)
class Prompt:
    """So many tokens, chosen by the seed; two prompts with different seeds have no block in common."""

    seed: int
    tokens: int

    def ids(self, model: Path) -> list[int]:
        """Its token ids."""
        chosen = random.Random(self.seed)
        return [chosen.randrange(_SPECIAL, vocabulary_size(model) - 100) for _ in range(self.tokens)]


@dataclass(frozen=True)
class Answer:
    """What an engine answered."""

    text: str
    account: dict[str, Any]
    """The connector's account of the turn; empty from an engine without one."""
    tokens: tuple[int, ...]
    id: str
    """The response's; the names that engines give the request have it in them."""


def ask(
    engine: Engine,
    ids: list[int],
    *,
    output: int = OUTPUT,
    timeout: float = 120.0,
    rank: int | None = None,
    **more: Any,
) -> Answer:
    """Complete a prompt greedily, not streamed; by the engine's data-parallel rank `rank`, if it is said.

    Raises:
        urllib.error.HTTPError: the engine answered with an error.
    """
    body = {
        "model": MODEL_NAME,
        "prompt": ids,
        "max_tokens": output,
        "temperature": 0.0,
        "return_token_ids": True,
        **more,
    }
    answer = engine.post("/v1/completions", body, timeout=timeout, rank=rank)
    (choice,) = answer["choices"]
    account = (answer.get("kv_transfer_params") or {}).get("tandem", {})
    return Answer(choice["text"], account, tuple(choice["token_ids"]), answer["id"])
