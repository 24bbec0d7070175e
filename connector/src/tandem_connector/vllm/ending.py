# SPDX-License-Identifier: Apache-2.0
"""The engine's end in order: peers are told, and writes in flight end, before vLLM takes the workers down.

On SIGTERM vLLM takes no request any more, goes on with those that it has for `--shutdown-timeout` seconds, and steps for as long
as its connector says that there is work (`EngineCoreProc._handle_shutdown` in `v1/engine/core.py`). Then the workers end, with NIXL
and the memory, and after them the scheduler's side. When the time is over, vLLM's front end kills all of it; with 0 seconds at once.
"""

import logging
from collections.abc import Callable
from typing import Final

from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import Seconds

_log = logging.getLogger(__name__)
PATIENCE: Final = 2.0
"""Seconds for peers' acknowledgements and for writes in flight."""
RESERVE: Final = 5.0
"""Seconds before vLLM's time is over at which peers are told although requests aren't finished: for them, and for the workers' end."""


class Ending:
    """Of one engine; scheduler's thread."""

    def __init__(self, exchange: Exchange, is_told: Callable[[], bool], timeout: float) -> None:
        """Not ending.

        Args:
            exchange: the engine's.
            is_told: whether vLLM was told to end.
            timeout: vLLM's, in seconds.
        """
        self._exchange = exchange
        self._is_told = is_told
        self._reserved_from = max(0.0, timeout - RESERVE)
        self._told_at: Seconds | None = None
        self._until: Seconds | None = None

    def look(self, now: Seconds, *, busy: bool) -> bool:
        """Begin the end if it is time; whether it begins. `busy`: the engine has requests."""
        if self._until is not None or not self._is_told():
            return False
        if self._told_at is None:
            self._told_at = now
            self._exchange.drain()
        if busy and now < self._told_at + self._reserved_from:
            return False
        self._until = Seconds(now + PATIENCE)
        _log.info("exchange_ends busy=%s held=%s", busy, self._exchange.gauges())
        self._exchange.shutdown(now)
        return True

    @property
    def has_begun(self) -> bool:
        """Whether peers were told."""
        return self._until is not None

    def is_over(self, now: Seconds) -> bool:
        """Whether nothing more is waited for."""
        return self._until is not None and now >= self._until

    def next_due(self) -> Seconds | None:
        """When `look` or `is_over` may say something else."""
        if self._until is not None or self._told_at is None:
            return self._until
        return Seconds(self._told_at + self._reserved_from)
