# SPDX-License-Identifier: Apache-2.0
"""Requests with the same full blocks that wait at the same time share one prefill."""

from dataclasses import dataclass, field
from itertools import count

from tandem_connector.asking.types import Arrival, PrefillId
from tandem_connector.exchange.types import BlockHash, RequestId


@dataclass(frozen=True, slots=True)
class ShareKey:
    """What two requests must have in common. Hash, LoRA and salt: the hash covers them, and tenants must not rely on that."""

    last: BlockHash
    """Hash of the last full block that is asked for."""
    lora: str | None
    salt: str | None

    @classmethod
    def of(cls, arrival: Arrival, stop: int) -> "ShareKey":
        """The key of a request that needs its blocks before `stop`, at least one."""
        return cls(arrival.hashes[stop - 1], arrival.lora, arrival.salt)


@dataclass(frozen=True, slots=True)
class Left:
    """A request doesn't take part any more."""

    prefill: PrefillId
    promoted: Arrival | None
    """The request that leads now, if the one that left did."""
    is_over: bool
    """Nobody waits for the prefill any more."""


@dataclass(slots=True)
class _Share:
    key: ShareKey
    members: dict[RequestId, Arrival] = field(default_factory=dict)
    """In the order of their arrival: the first one leads."""


class Sharing:
    """The prefills that are being asked for, and who waits for each."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._by_key: dict[ShareKey, PrefillId] = {}
        self._shares: dict[PrefillId, _Share] = {}
        self._of: dict[RequestId, PrefillId] = {}

    def join(self, key: ShareKey, arrival: Arrival) -> PrefillId:
        """Take part in the prefill with this key; if there is none, lead a new one."""
        prefill = self._by_key.get(key)
        if prefill is None:
            prefill = self._by_key[key] = PrefillId(next(self._ids))
            self._shares[prefill] = _Share(key)
        self._shares[prefill].members[arrival.request] = arrival
        self._of[arrival.request] = prefill
        return prefill

    def leave(self, request: RequestId) -> Left | None:
        """The request was aborted, or helps itself. The next one leads, with the call that runs.

        Returns:
            None for a request that takes part in nothing.
        """
        prefill = self._of.pop(request, None)
        if prefill is None:
            return None
        members = self._shares[prefill].members
        led = next(iter(members)) == request
        del members[request]
        if not members:
            self.close(prefill)
            return Left(prefill, None, is_over=True)
        return Left(prefill, self.leader(prefill) if led else None, is_over=False)

    def close(self, prefill: PrefillId) -> tuple[RequestId, ...]:
        """The prefill has come to its end, for all who waited; these are returned."""
        share = self._shares.pop(prefill)
        del self._by_key[share.key]
        for request in share.members:
            del self._of[request]
        return tuple(share.members)

    def leader(self, prefill: PrefillId) -> Arrival:
        """The request on whose behalf P is asked."""
        return next(iter(self._shares[prefill].members.values()))

    def members(self, prefill: PrefillId) -> tuple[RequestId, ...]:
        """All who wait for the prefill, the leader first."""
        return tuple(self._shares[prefill].members)

    def prefill_of(self, request: RequestId) -> PrefillId | None:
        """What the request waits for."""
        return self._of.get(request)

    def __len__(self) -> int:
        return len(self._shares)
