# SPDX-License-Identifier: Apache-2.0
"""Which ways KV blocks go back from decode to prefill; the resource's `transfer.reverse`."""

from enum import StrEnum


class Reverse(StrEnum):
    """What decode computed, for the next turn's prefill."""

    PUSH_AND_FETCH = "PushAndFetch"
    PUSH = "Push"
    """Decode offers what it computes; prefill takes what it lacks."""
    FETCH = "Fetch"
    """Prefill asks decode at the start of a turn for what it lacks."""
    DISABLED = "Disabled"

    @property
    def pushes(self) -> bool:
        """Whether decode offers."""
        return self in {Reverse.PUSH_AND_FETCH, Reverse.PUSH}

    @property
    def fetches(self) -> bool:
        """Whether prefill may ask decode."""
        return self in {Reverse.PUSH_AND_FETCH, Reverse.FETCH}
