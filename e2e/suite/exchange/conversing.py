# SPDX-License-Identifier: Apache-2.0
"""A conversation with decode, turn by turn, and what it cost each engine."""

from dataclasses import dataclass
from typing import Any, Final

from e2e.cluster.progress import wait_until
from e2e.conversation import Turn, held
from e2e.engine.model import MODEL_NAME
from e2e.exchange.engines import BLOCK_SIZE, Engine
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Answer
from tandem_connector.asking.wire import RANK_HEADER

_LANDING: Final = 10.0
"""Seconds for what decode computed to be at prefill."""


@dataclass(frozen=True)
class Held:
    """The conversation, and the accounts of its turns at each engine."""

    turns: list[Turn]
    prefill: list[dict[str, Any]]
    decode: list[dict[str, Any]]
    landed_before: list[float]
    """Blocks that had come back to prefill before each turn."""


def converse(
    prefill: Engine, decode: Engine, *, model: str = MODEL_NAME, block: int = BLOCK_SIZE, rank: int | None = None
) -> Held:
    """Hold the conversation; each turn begins when prefill has what decode computed in the one before.

    Args:
        prefill: nobody else uses it meanwhile.
        decode: the client speaks to this one.
        model: the served model, or an adapter.
        block: tokens per KV block.
        rank: which of decode's data-parallel ranks, if it has some.
    """
    headers = {} if rank is None else {RANK_HEADER: str(rank)}
    turns, landed = [], []
    began, before, already = len(prefill.turns()), len(decode.turns()), _landed(prefill)
    for turn in held(decode.url, model, session="exchange", headers=headers):
        turns.append(turn)
        expected = already + sum(blocks_filled(account, block) for account in decode.turns()[before:])
        wait_until("blocks to come back to prefill", lambda up_to=expected: _landed(prefill) >= up_to, _LANDING)  # type: ignore[misc]
        landed.append(_landed(prefill) - already)
    return Held(turns, prefill.turns()[began:], decode.turns()[before:], landed)


def blocks_filled(account: dict[str, Any], block: int = BLOCK_SIZE) -> int:
    """Blocks that decode filled in a turn: P lacks all of them."""
    held_before = account["cached"] + sum(account["received"].values())
    # The last token has no KV yet.
    return int((account["prompt"] + account["output"] - 1) // block - held_before // block)


def excess(talk: Held, block: int = BLOCK_SIZE) -> list[str]:
    """Where an engine computed, or got, other than it had to; empty if nowhere."""
    found = []
    first, *later = talk.prefill
    if first["computed"] != first["prompt"]:
        found.append(f"prefill computed {first['computed']} of the first {first['prompt']} tokens")
    if len(talk.prefill) != len(talk.decode):
        found.append(f"prefill had {len(talk.prefill)} turns, decode {len(talk.decode)}")
    for account, before in zip(later, talk.decode, strict=False):
        new = account["prompt"] - (before["prompt"] + before["output"])
        if account["computed"] > new + block:
            found.append(f"prefill computed {account['computed']} tokens, of which {new} were new")
    for account in talk.decode:
        if account["computed"] > block:
            found.append(f"decode computed {account['computed']} of {account['prompt']} tokens")
        missing = (account["prompt"] - 1) // block * block - account["cached"]
        if account["received"] != {"forward": missing}:
            found.append(f"decode lacked {missing} tokens and received {account['received']}")
    came = 0
    for account, landed in zip(talk.decode, talk.landed_before, strict=True):
        came += blocks_filled(account, block)
        if landed != came:
            found.append(f"{landed} blocks were at prefill, and decode had filled {came}")
    return found


def prefilled(answer: Answer, prefill: Engine) -> dict[str, Any]:
    """Prefill's own account of the turn that decode answered.

    Decode's has of it only what prefill's response has said by decode's last token, and that may come later.
    """
    return wait_until(
        "prefill to end its turn",
        lambda: next((turn for turn in prefill.turns() if answer.id in turn["request"]), None),
        _LANDING,
    )


def moved(writer: Engine, receiver: Engine, purpose: str) -> tuple[float, float]:
    """Bytes that one engine has written, and that the other has received."""
    return (
        value_of(writer.metrics(), "tandem_bytes_written_total", purpose=purpose),
        value_of(receiver.metrics(), "tandem_bytes_received_total", purpose=purpose),
    )


def _landed(prefill: Engine) -> float:
    return value_of(prefill.metrics(), "tandem_blocks_received_total", purpose="reverse_push")
