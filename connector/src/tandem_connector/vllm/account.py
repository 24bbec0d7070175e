# SPDX-License-Identifier: Apache-2.0
"""Where the tokens of one turn's prompt came from, as one engine saw it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.prefill import KEY

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
    waited_ms: float
    """How long the request waited for other engines' blocks."""
    local: str = ""
    """Why no P was asked, or none computed it; empty otherwise."""


def account_params(account: TurnAccount) -> dict[str, object]:
    """The account as a response's `kv_transfer_params`."""
    return {KEY: msgspec.to_builtins(account, str_keys=True)}
