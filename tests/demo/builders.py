# SPDX-License-Identifier: Apache-2.0
"""Conversations that were held, for tables and charts."""

from e2e.account import EngineAccount, PoolsAccount
from e2e.conversation import Turn
from e2e.demo.held import HeldConversation, Row


def a_turn(
    *,
    prefill: int = 0,
    decode: int = 0,
    forward: int = 0,
    back: int = 0,
    prompt: int = 700,
    text: str = "an answer",
    first_token: float = 0.5,
) -> Row:
    """`prefill` and `decode`: tokens computed there; `forward` and `back`: bytes moved to decode and to prefill."""
    return Row(
        Turn(text, prompt, 96, first_token),
        PoolsAccount(
            prefill=EngineAccount(computed=prefill, received_bytes=back),
            decode=EngineAccount(computed=decode, received_bytes=forward),
        ),
    )


def held(way: str, *rows: Row) -> HeldConversation:
    return HeldConversation(way, rows)


def held_by_one(way: str, *rows: Row) -> HeldConversation:
    return HeldConversation(way, rows, one_engine=True)
