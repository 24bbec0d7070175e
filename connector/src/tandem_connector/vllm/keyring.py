# SPDX-License-Identifier: Apache-2.0
"""Which of the resource's keys an engine uses while one takes the place of another. Pure.

Engines don't hear of a new key at the same time: a kubelet looks after the files of its pods about every minute. So an engine
that hears of one goes on to listen with the former for a while that is longer than that, and connects with either. Whoever
it speaks with does the same at its own time, so at each moment each of them knows the key that the other listens with.
"""

import math
from dataclasses import dataclass
from typing import Final

from tandem_connector.contract.keys import ExchangeKey
from tandem_connector.contract.prefill import Seal
from tandem_connector.vllm.keys import CurveKeys

OVERLAP: Final = 180.0
"""Seconds. A kubelet syncs a pod every 60 to 90 seconds (`syncFrequency`, with its jitter)."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Those of a moment."""

    listening: CurveKeys
    """The one by which others are let in, and notes are sealed."""
    known: tuple[CurveKeys, ...]
    """By which others may be reached, `listening` first."""

    @classmethod
    def only(cls, keys: CurveKeys) -> "Keys":
        """One key, for good."""
        return cls(keys, (keys,))

    def after(self, keys: CurveKeys | None) -> CurveKeys:
        """The one to try when a peer wasn't reached with this one."""
        at = self.known.index(keys) if keys in self.known else -1
        return self.known[(at + 1) % len(self.known)]

    @property
    def seal(self) -> Seal:
        """For the notes of prefill requests."""
        return Seal(*(keys.secret for keys in self.known))


class Keyring:
    """One engine's. Times are those of one clock, and never go back."""

    def __init__(self, key: ExchangeKey, now: float, *, overlap: float = OVERLAP) -> None:
        """At the engine's start.

        Args:
            key: what the key file holds. If it names a previous key, others may have only that one yet.
            now: seconds.
            overlap: for how long a key that has been replaced is used on.
        """
        self._overlap = overlap
        own, before = CurveKeys.of(key), CurveKeys.before(key)
        self._turns = [(before or own, -math.inf)]
        """The key to listen with, and those that follow it, each from a time on."""
        if before is not None and before != own:
            self._turns.append((own, now + overlap))
        self._named = _named(key)
        self._leaving: dict[CurveKeys, float] = {}
        """Keys that were named or listened with, and until when others are reached with them."""

    def read(self, key: ExchangeKey, now: float) -> None:
        """The key file holds this now."""
        self.at(now)
        own = CurveKeys.of(key)
        if own != self._turns[-1][0]:
            self._turns.append((own, now + self._overlap))
        self._leaving |= dict.fromkeys(self._named, now + self._overlap)
        self._named = _named(key)

    def at(self, now: float) -> Keys:
        """The keys to use now."""
        while len(self._turns) > 1 and self._turns[1][1] <= now:
            (former, _), (_, start) = self._turns.pop(0), self._turns[0]
            self._leaving[former] = max(start + self._overlap, self._leaving.get(former, -math.inf))
        self._leaving = {keys: until for keys, until in self._leaving.items() if until > now}
        listening = self._turns[0][0]
        return Keys(listening, tuple(dict.fromkeys((*(keys for keys, _ in self._turns), *self._named, *self._leaving))))


def _named(key: ExchangeKey) -> tuple[CurveKeys, ...]:
    return tuple(keys for keys in (CurveKeys.of(key), CurveKeys.before(key)) if keys is not None)
