# SPDX-License-Identifier: Apache-2.0
"""Where the tokens of one turn's prompt came from, as one engine saw it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.prefill import KEY, VERSION, PrefillReceipt
from tandem_connector.contract.types import EngineId
from tandem_connector.vllm.steps import Progress
from tandem_connector.vllm.turns import Turn

_Count = Annotated[int, Meta(ge=0)]


class TurnAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, unless said otherwise. In `kv_transfer_params["tandem"]` of decode's non-streaming responses."""

    prompt: _Count
    output: _Count
    cached: _Count
    """Prompt tokens found in the engine's own prefix cache."""
    received: dict[Purpose, int]
    """Prompt tokens whose KV peers wrote for this request, by purpose."""
    computed: _Count
    """Prompt tokens computed here; those of a preempted request count again."""
    computed_by_prefill: _Count | None = None
    """Prompt tokens that P computed, if it has said so by the end of the turn."""
    fetched_by_prefill: _Count | None = None
    fetch: bool | None = None
    """Whether the engine fetched what a peer held for the request, or computed it because that was to be sooner; None: no
    peer held enough."""
    wait: bool | None = None
    """The same of blocks that were on their way here already."""
    waited_ms: float
    """How long the request waited for other engines' blocks."""
    asked: tuple[EngineId, ...] = ()
    """Prefill engines that were asked, in this order. Each but the last failed, and the last one too where `local` says why."""
    local: str = ""
    """Why no P was asked, none computed the prompt, or what it computed didn't come; empty otherwise."""


def account_of(turn: Turn, progress: Progress, output: int, block_size: int) -> TurnAccount:
    """The account of a turn that has ended with so many tokens of output."""
    return TurnAccount(
        prompt=progress.prompt,
        output=output,
        cached=(turn.local_blocks or 0) * block_size,
        received={purpose: blocks * block_size for purpose, blocks in turn.received.items() if blocks},
        computed=progress.computed,
        computed_by_prefill=turn.receipt.computed_tokens if turn.receipt is not None else None,
        fetched_by_prefill=turn.receipt.fetched_tokens if turn.receipt is not None else None,
        fetch=turn.fetch,
        wait=None if turn.hold is None else turn.hold > 0,
        waited_ms=round(turn.waited * 1000, 3),
        asked=tuple(turn.asked),
        local=turn.why_local,
    )


def receipt_of(account: TurnAccount, prefill: EngineId) -> PrefillReceipt:
    """What P tells decode of the prefill."""
    return PrefillReceipt(
        version=VERSION,
        prefill=prefill,
        computed_tokens=account.computed,
        cached_tokens=account.cached,
        fetched_tokens=account.received.get(Purpose.REVERSE_FETCH, 0),
    )


def account_params(account: TurnAccount) -> dict[str, object]:
    """The account as a response's `kv_transfer_params`."""
    return {KEY: msgspec.to_builtins(account, str_keys=True)}
