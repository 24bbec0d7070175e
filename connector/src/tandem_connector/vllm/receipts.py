# SPDX-License-Identifier: Apache-2.0
"""Which blocks have arrived, told by the notifications that NIXL delivers after each write.

A notification names the want and the indices within it, so writes may complete in any order and none is the last one.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from tandem_connector.contract.messages import MAX_BLOCKS
from tandem_connector.exchange.types import Index, WantId
from tandem_connector.vllm.reports import Received

MAX_NOTIFICATION_BYTES = 8 * MAX_BLOCKS
"""Longest notification that is read at all; one that names all blocks of the largest want is shorter."""
MAX_EARLY_INDICES = MAX_BLOCKS
"""Most indices kept for wants that this rank hasn't heard of yet."""


class _Notification(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    want: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    indices: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0, lt=MAX_BLOCKS)], ...], msgspec.Meta(min_length=1, max_length=MAX_BLOCKS)
    ]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Notification)


def notification_of(want: WantId, indices: tuple[Index, ...]) -> bytes:
    """What a write that brings `indices` of `want` tells its receiver."""
    return _encoder.encode(_Notification(want, indices))


@dataclass(slots=True)
class ReceiptCounts:
    """Notifications that were ignored, by reason. All only grow."""

    malformed: int = 0
    """Not a notification, an index outside its want, or from another agent than the want was sent to."""
    late: int = 0
    """For a want that was forgotten, or that this engine never had."""
    evicted: int = 0
    """Came before their want, and there were too many of these. Their want will expire."""


@dataclass(slots=True)
class _Expected:
    agent: str
    blocks: int


class Receipts:
    """The wants of this rank that are open, and what came before its want did.

    The scheduler sends a want to the peer while its metadata is still on the way to this rank, so a fast peer's write
    can be earlier.
    """

    def __init__(self) -> None:
        self.counts = ReceiptCounts()
        self._expected: dict[WantId, _Expected] = {}
        self._early: dict[WantId, list[tuple[str, tuple[Index, ...]]]] = {}
        self._early_indices = 0
        self._newest = WantId(-1)

    @property
    def expecting(self) -> bool:
        """Whether any want is open."""
        return bool(self._expected)

    def expect(self, want: WantId, agent: str, blocks: int) -> list[Received]:
        """Count what `agent` writes for `want`, whose indices are below `blocks`; returns what has come already.

        Raises:
            ValueError: want ids only grow (`WantId`), and this one doesn't.
        """
        if want <= self._newest:
            raise ValueError(f"want {want} after want {self._newest}: ids of wants only grow")
        self._newest = want
        self._expected[want] = _Expected(agent, blocks)
        early = self._early.pop(want, [])
        self._early_indices -= sum(len(indices) for _, indices in early)
        received = [self._counted(want, sender, indices) for sender, indices in early]
        return [each for each in received if each is not None]

    def forget(self, want: WantId) -> None:
        """Ignore what still comes for `want`."""
        self._expected.pop(want, None)

    def arrived(self, agent: str, notification: bytes) -> Received | None:
        """Take a notification that NIXL says came from `agent`; None when there is nothing to report."""
        if len(notification) > MAX_NOTIFICATION_BYTES:
            self.counts.malformed += 1
            return None
        try:
            decoded = _decoder.decode(notification)
        except (msgspec.MsgspecError, ValueError):
            self.counts.malformed += 1
            return None
        want, indices = WantId(decoded.want), tuple(Index(index) for index in decoded.indices)
        if want in self._expected:
            return self._counted(want, agent, indices)
        if want <= self._newest:
            self.counts.late += 1
        else:
            self._keep(want, agent, indices)
        return None

    def _counted(self, want: WantId, agent: str, indices: tuple[Index, ...]) -> Received | None:
        expected = self._expected[want]
        if agent != expected.agent or max(indices) >= expected.blocks:
            self.counts.malformed += 1
            return None
        return Received(want, indices)

    def _keep(self, want: WantId, agent: str, indices: tuple[Index, ...]) -> None:
        self._early.setdefault(want, []).append((agent, indices))
        self._early_indices += len(indices)
        while self._early_indices > MAX_EARLY_INDICES:
            oldest = next(iter(self._early))
            gone = self._early.pop(oldest)
            self._early_indices -= sum(len(each) for _, each in gone)
            self.counts.evicted += len(gone)
