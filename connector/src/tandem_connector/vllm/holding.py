# SPDX-License-Identifier: Apache-2.0
"""Requests whose next block is on its way for somebody else: waiting for it is cheaper than to compute or move it again."""

from collections.abc import Iterable

from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import BlockHash, RequestId, Seconds
from tandem_connector.exchange.worth import Worth
from tandem_connector.vllm.turns import Turn


class Holding:
    """Which requests the scheduler is asked to come back to, and when."""

    def __init__(self, exchange: Exchange, worth: Worth, patience: float) -> None:
        """Hold no request for more than `patience` seconds in all."""
        self._exchange = exchange
        self._worth = worth
        self._patience = patience
        self._settling: dict[RequestId, frozenset[BlockHash]] = {}
        """What has come for requests that the scheduler hasn't looked at since: it enters the cache only then."""
        self._again: dict[RequestId, Seconds] = {}

    def holds(self, turn: Turn, computed: int, usable: int, now: Seconds) -> bool:
        """Whether the request, which has `computed` blocks of `usable`, is to wait for what comes for somebody else."""
        self._again.pop(turn.request, None)
        if turn.held_since is not None:
            turn.waited, turn.held = turn.waited + now - turn.held_since, turn.held + now - turn.held_since
            turn.held_since = None
        lacking = turn.hashes[computed:usable]
        if not lacking or not self._comes(lacking[0]):
            return False
        if turn.hold is None:
            coming = next((index for index, name in enumerate(lacking) if not self._comes(name)), len(lacking))
            turn.hold = min(self._patience, self._worth.patience(coming, now))
        if turn.held >= turn.hold:
            return False
        turn.held_since = now
        self.ask_again(turn.request, Seconds(now + turn.hold - turn.held))
        return True

    def _comes(self, block_hash: BlockHash) -> bool:
        settling = any(block_hash in hashes for hashes in self._settling.values())
        return settling or self._exchange.incoming_prefix([block_hash]) > 0

    def ask_again(self, request: RequestId, at: Seconds) -> None:
        """The scheduler is to look at the request at this time, if nothing happens before."""
        self._again[request] = at

    def settles(self, request: RequestId, hashes: Iterable[BlockHash]) -> None:
        """These have come for the request, and enter the cache when the scheduler looks at it."""
        self._settling[request] = frozenset(hashes)

    def settled(self, request: RequestId) -> None:
        """The scheduler has."""
        self._settling.pop(request, None)

    def forget(self, request: RequestId) -> None:
        """The request is over."""
        self._again.pop(request, None)
        self._settling.pop(request, None)

    def tick(self, now: Seconds) -> bool:
        """Whether the scheduler is to look at a request again."""
        again = [request for request, at in self._again.items() if now >= at]
        for request in again:
            del self._again[request]
        return bool(again)

    def next_due(self) -> Seconds | None:
        """When `tick` has something to say."""
        return min(self._again.values(), default=None)
