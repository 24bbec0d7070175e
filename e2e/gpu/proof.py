# SPDX-License-Identifier: Apache-2.0
"""What must be true of a conversation over prefill and decode, to the token and to the byte. Decides only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from e2e.account import EngineAccount
from e2e.exchange.numbers import value_of

_WRITTEN = "tandem_bytes_written_total"


@dataclass(frozen=True)
class Totals:
    """Of a prefill and a decode engine, since they started."""

    prefill: EngineAccount
    decode: EngineAccount
    sent_forward: int
    """Bytes that prefill wrote into decode's memory."""
    sent_back: int

    @classmethod
    def of(cls, prefill: str, decode: str) -> Self:
        """From the engines' metrics."""
        return cls(
            prefill=EngineAccount.parse(prefill),
            decode=EngineAccount.parse(decode),
            sent_forward=int(value_of(prefill, _WRITTEN)),
            sent_back=int(value_of(decode, _WRITTEN)),
        )

    def since(self, earlier: Self) -> Self:
        """What was added after `earlier`."""
        return type(self)(
            self.prefill.since(earlier.prefill),
            self.decode.since(earlier.decode),
            self.sent_forward - earlier.sent_forward,
            self.sent_back - earlier.sent_back,
        )


@dataclass(frozen=True)
class SeenTurn:
    """A turn of a conversation, and what it added to the engines' totals."""

    prompt: int
    """Tokens."""
    output: int
    totals: Totals


@dataclass(frozen=True)
class Finding:
    """One thing that must be so."""

    what: str
    expected: object
    seen: object

    @property
    def holds(self) -> bool:
        """Whether it is so."""
        return self.expected == self.seen

    def __str__(self) -> str:
        return f"ok {self.what}: {self.seen}" if self.holds else f"FAILED {self.what}: {self.seen}, not {self.expected}"


def findings(turns: Sequence[SeenTurn], block: int, block_bytes: int) -> Iterator[Finding]:
    """What is computed, cached and moved in each turn, when only full blocks move and each moves once.

    Args:
        turns: of one conversation that nobody else disturbed, whose first prompt was new; each prompt goes on from the
            answer before.
        block: tokens per block.
        block_bytes: of one block, on all ranks.
    """
    known = 0
    for number, turn in enumerate(turns, start=1):
        held = known // block
        # Decode computes at least the last token: what comes next follows from it.
        full = (turn.prompt - 1) // block
        # The last token that was said has no KV yet.
        known = turn.prompt + turn.output - 1
        filled = known // block - turn.prompt // block
        seen, name = turn.totals, f"turn {number}:"
        yield Finding(f"{name} tokens that prefill computed", turn.prompt - held * block, seen.prefill.computed)
        yield Finding(f"{name} tokens that prefill had", held * block, seen.prefill.cached)
        yield Finding(f"{name} tokens that decode computed", turn.prompt - full * block, seen.decode.computed)
        yield Finding(f"{name} tokens that decode had", held * block, seen.decode.cached)
        yield Finding(f"{name} bytes sent forward", (full - held) * block_bytes, seen.sent_forward)
        yield Finding(f"{name} bytes received by decode", seen.sent_forward, seen.decode.received_bytes)
        yield Finding(f"{name} bytes sent back", filled * block_bytes, seen.sent_back)
        yield Finding(f"{name} bytes received by prefill", seen.sent_back, seen.prefill.received_bytes)
