# SPDX-License-Identifier: Apache-2.0
"""What had to be computed and moved in each turn, from its sizes alone, and how far what was is from it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from e2e.bench.kv.journals import Exchanged
from e2e.exchange.engines import BLOCK_SIZE


@dataclass(frozen=True)
class Balance:
    """One turn. `moved` and `missing` are blocks, `beyond` are tokens."""

    exchanged: Exchanged
    beyond_at_prefill: int
    """Computed by prefill, less those that nobody had computed before."""
    beyond_at_decode: int
    """Computed by decode: less the last one, which the answer is made of, or less all that were new, if it computed the
    prompt itself."""
    forward_missing: int
    """At decode, of what it can use: it computes the last token, so the block of that one, itself."""
    fetch_missing: int
    """At prefill, of what decode had, when the turn began."""
    push_missing: int
    """At prefill, of what decode had, when the turn ended; unless prefill forgets."""


def balances(turns: Sequence[Exchanged]) -> Iterator[Balance]:
    """Those of a conversation's turns, in their order, all of them held by one decode engine and one prefill engine."""
    at_decode = at_prefill = 0
    for each in turns:
        turn = each.turn
        asked = each.computed_by_prefill is not None
        new = turn.prompt - turn.held_before
        if asked:
            at_prefill = max(at_prefill, turn.prompt // BLOCK_SIZE)
        after = (turn.prompt + turn.output - 1) // BLOCK_SIZE
        yield Balance(
            exchanged=each,
            beyond_at_prefill=0 if each.computed_by_prefill is None else each.computed_by_prefill - new,
            beyond_at_decode=each.computed_by_decode - (1 if asked else new),
            forward_missing=(turn.prompt - 1) // BLOCK_SIZE - at_decode if asked else 0,
            fetch_missing=max(0, at_decode - each.cached_by_prefill // BLOCK_SIZE) if asked else 0,
            push_missing=after - at_prefill,
        )
        at_decode = at_prefill = after


def missed(balance: Balance, *, forgets: bool) -> Iterator[str]:
    """The goals that a turn with reverse missed, in words.

    Args:
        balance: the turn's.
        forgets: prefill's cache is too small for all conversations, so that what decode pushed may be gone again.
    """
    each = balance.exchanged
    checks = [
        (each.forward_blocks == balance.forward_missing, f"forward {each.forward_blocks} of {balance.forward_missing}"),
        (each.turn.number == 0 or balance.beyond_at_prefill < BLOCK_SIZE, f"prefill +{balance.beyond_at_prefill}"),
        (each.turn.number == 0 or balance.beyond_at_decode < BLOCK_SIZE, f"decode +{balance.beyond_at_decode}"),
        (each.fetched_blocks == balance.fetch_missing, f"fetched {each.fetched_blocks} of {balance.fetch_missing}"),
    ]
    if not forgets:
        checks.append(
            (each.pushed_blocks == balance.push_missing, f"pushed {each.pushed_blocks} of {balance.push_missing}")
        )
    for is_met, what in checks:
        if not is_met:
            yield f"{each.turn.request}: {what}"


def all_missed(conversations: Iterable[Sequence[Exchanged]], *, forgets: bool) -> list[str]:
    """Those of all turns of these conversations."""
    return [what for turns in conversations for balance in balances(turns) for what in missed(balance, forgets=forgets)]
