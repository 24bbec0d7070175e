# SPDX-License-Identifier: Apache-2.0
"""How much is measured: the model, the conversations, and what the engines' caches hold."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from e2e.bench.kv.script import Script
from e2e.engine.model import Shape, cached_model
from e2e.exchange.engines import BLOCK_SIZE

AT_ONCE = 4
"""Conversations that are held at the same time, after one alone."""
FORGETTING = 2
"""Conversations that are held in turns, one request at a time, by a prefill engine whose cache holds one of them."""


@dataclass(frozen=True)
class Scale:
    """All sizes of a run."""

    alone: Script
    at_once: Script
    forgetting: Script
    shape: Shape
    pairs: int
    """Of prefills, where one is compared with another."""

    @classmethod
    def of(cls, tokens: int, turns: int, output: int, pairs: int) -> Self:
        """Conversations that grow to `tokens` alone, to half of that where there are several.

        The model computes a thousand tokens in one to two seconds on one core, and one more of an answer in some tens of
        milliseconds.
        """
        half = Script.growing_to(tokens // 2, turns, output)
        return cls(
            alone=Script.growing_to(tokens, turns, output),
            at_once=half,
            forgetting=half,
            shape=Shape(kv_heads=2, longest=tokens + BLOCK_SIZE),
            pairs=pairs,
        )

    @property
    def model(self) -> Path:
        """The model's folder."""
        return cached_model(shape=self.shape)

    @property
    def block_bytes(self) -> int:
        """Of one block: keys and values of 32 bits in all layers."""
        shape = self.shape
        return BLOCK_SIZE * shape.layers * 2 * shape.kv_heads * shape.head * 4

    @property
    def blocks(self) -> int:
        """That hold all conversations of one way, and the requests of the rest."""
        tokens = self.alone.longest + AT_ONCE * self.at_once.longest
        return tokens * 5 // 4 // BLOCK_SIZE

    @property
    def few_blocks(self) -> int:
        """That hold one of the conversations of `forgetting`, and not two."""
        return self.forgetting.longest * 5 // 4 // BLOCK_SIZE
