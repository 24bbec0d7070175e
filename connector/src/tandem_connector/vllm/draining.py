# SPDX-License-Identifier: Apache-2.0
"""An engine that is to end hands over what it holds: its cache when the peer table says so, then each request's blocks at its end.

The table names the successor, which may join later than the table comes, or answer under another name; one that is not there in
time is given up, since its end must not cost an engine the whole time for its own. One that falls silent while it is moved to is
waited for as long. When it was lost and is there again, all is offered again: it takes what it lacks.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tandem_connector.contract.types import EngineId
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import BlockHash, OfferedRun, Seconds
from tandem_connector.vllm.status import DrainStage

_log = logging.getLogger(__name__)
SUCCESSOR_WITHIN: Final = 10.0
"""Seconds in which a successor must be reached. It is named ahead, so most often it has joined long before."""


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """What the peer table says of this engine's end."""

    drains: bool
    successor: EngineId | None
    """By the name that its process gives itself, once that is known."""


class Draining:
    """Of one engine; scheduler's thread."""

    def __init__(self, exchange: Exchange, cached: Callable[[], Iterable[OfferedRun]]) -> None:
        """Not draining.

        Args:
            exchange: the engine's.
            cached: what the prefix cache holds and no request uses, most recently used first.
        """
        self._exchange = exchange
        self._cached = cached
        self._order = DrainOrder(drains=False, successor=None)
        self._began = False
        self._reached_by: Seconds | None = None
        """While the successor is waited for."""
        self._offered: set[BlockHash] = set()
        self._stage = DrainStage.SERVING

    @property
    def drains(self) -> bool:
        """Whether the engine is to end."""
        return self._order.drains

    @property
    def hands_over(self) -> bool:
        """Whether what requests leave behind is offered to a successor."""
        return self._order.successor is not None and self._began

    def told(self, order: DrainOrder, now: Seconds) -> None:
        """The table says this now."""
        if order == self._order:
            return
        _log.info("drain_told drains=%s successor=%s", order.drains, order.successor)
        self._order, self._began, self._reached_by = order, False, None
        if order.drains:
            self._exchange.drain()
            if order.successor is not None:
                self._reached_by = Seconds(now + SUCCESSOR_WITHIN)
            self.reached(order.successor, now)
        else:
            self._exchange.stay()

    def reached(self, peer: EngineId | None, now: Seconds) -> None:
        """This peer has joined, or is back; begin if it is the successor."""
        if peer is None or peer != self._order.successor or not self._exchange.reaches(peer):
            return
        runs = tuple(self._cached())
        self._began, self._reached_by = True, None
        self._offered = {block_hash for run in runs for block_hash in run.hashes}
        _log.info("move_began successor=%s blocks=%d", peer, len(self._offered))
        self._exchange.move(peer, runs, now)

    def falls_silent(self, peer: EngineId, now: Seconds) -> None:
        """Nothing is heard of this peer, which is about to be told to the exchange; wait for it if something is being moved to it."""
        if peer == self._order.successor and self._exchange.moves_to(peer):
            self._reached_by = Seconds(now + SUCCESSOR_WITHIN)

    def request_ended(self, hashes: Sequence[BlockHash], now: Seconds) -> None:
        """A request with these full blocks is over."""
        successor = self._order.successor
        if successor is None or not self._began:
            return
        new = next((index for index, each in enumerate(hashes) if each not in self._offered), None)
        if new is not None:
            self._offered.update(hashes[new:])
            self._exchange.move(successor, [OfferedRun(new, tuple(hashes[new:]))], now)

    def tick(self, now: Seconds) -> None:
        """Wait no longer for a successor that isn't there in time. It gets what there is if it comes all the same."""
        if self._reached_by is not None and self._reached_by <= now:
            self._reached_by = None
            _log.warning("move_given_up successor=%s why=not reached in %g s", self._order.successor, SUCCESSOR_WITHIN)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return self._reached_by

    def stage(self, *, busy: bool) -> DrainStage:
        """How far it has come; `busy`: the engine has requests."""
        stage = self._stage_now(busy=busy)
        if stage is not self._stage:
            _log.info("drain_stage stage=%s before=%s", stage, self._stage)
            self._stage = stage
        return stage

    def _stage_now(self, *, busy: bool) -> DrainStage:
        if not self._order.drains:
            return DrainStage.SERVING
        if busy or self._reached_by is not None or not self._exchange.at_rest:
            return DrainStage.DRAINING
        return DrainStage.DRAINED
