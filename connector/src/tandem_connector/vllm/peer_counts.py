# SPDX-License-Identifier: Apache-2.0
"""What went between this engine and each peer, as metrics tell it: by the peer's pod, while the peer is listed and a while more.

The label is the pod's name, since that is what a monitor calls the other end of the pair. A pod whose process begins anew goes on with
its series. A peer that is listed has its series at once, at 0: Prometheus takes the first value that it sees for what was before.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import EngineId, Role, pod_of
from tandem_connector.exchange.tally import Moved
from tandem_connector.exchange.types import Seconds

KEPT: Final = 120.0
"""Seconds for which a peer's series stay when the table has dropped it, and after the last block: so that each is scraped once more, a
minute being the longest interval that is usual. What a series gained after its last scrape is in no rate of it."""


@dataclass(frozen=True, slots=True)
class PeerPod:
    """A pod of the peer table."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class PeerNews:
    """What was added since it was told the last time, by the pod's name and the purpose, in blocks."""

    received: Mapping[tuple[str, Purpose], int]
    written: Mapping[tuple[str, Purpose], int]
    gone: tuple[str, ...]
    """Pods whose series are to go, after these were added."""


NO_NEWS: Final = PeerNews({}, {}, ())


class PeerCounts:
    """Of one engine; scheduler's thread."""

    def __init__(self, role: Role | None, reverse: Reverse) -> None:
        """Nobody yet.

        Args:
            role: the engine's.
            reverse: the ways in which decode's blocks go to prefill.
        """
        self._role = role
        back = {Purpose.REVERSE_PUSH: reverse.pushes, Purpose.REVERSE_FETCH: reverse.fetches}
        self._back = [purpose for purpose, used in back.items() if used]
        self._listed: Mapping[str, PeerPod] = {}
        self._names: dict[str, str] = {}
        """By UID, of all pods that have series."""
        self._leave: dict[str, Seconds] = {}
        """When pods that are not listed are forgotten, by UID."""
        self._received: Counter[tuple[str, Purpose]] = Counter()
        self._written: Counter[tuple[str, Purpose]] = Counter()
        self._gone: list[str] = []

    def look(self, listed: Mapping[str, PeerPod], now: Seconds) -> None:
        """These pods, by UID, are in the peer table; it is another mapping when another table holds."""
        if listed is self._listed:
            return
        for uid in self._names.keys() - listed.keys():
            self._leave.setdefault(uid, Seconds(now + KEPT))
        for uid, pod in listed.items():
            self._leave.pop(uid, None)
            known = self._names.get(uid)
            if known != pod.name:
                if known is not None:
                    self._gone.append(known)
                self._names[uid] = pod.name
                self._begin(pod)
        self._listed = listed

    def _begin(self, pod: PeerPod) -> None:
        there, back = self._purposes(pod.role)
        self._written.update({(pod.name, purpose): 0 for purpose in there})
        self._received.update({(pod.name, purpose): 0 for purpose in back})

    def _purposes(self, peer: Role) -> tuple[Collection[Purpose], Collection[Purpose]]:
        """Why blocks go to such a peer, and come from it."""
        if peer is self._role:
            return [Purpose.MOVE], [Purpose.MOVE]
        return ([Purpose.FORWARD], self._back) if self._role is Role.PREFILL else (self._back, [Purpose.FORWARD])

    def add(self, moved: Moved, now: Seconds) -> None:
        """This went since the last call."""
        for ours, theirs in ((self._received, moved.received), (self._written, moved.written)):
            for (engine, purpose), blocks in theirs.items():
                ours[self._name(engine, now), purpose] += blocks

    def _name(self, engine: EngineId, now: Seconds) -> str:
        uid = pod_of(engine)
        if uid not in self._listed:
            self._leave[uid] = Seconds(now + KEPT)
        # Only one that is listed is ever spoken with; but this must not fail where that is broken.
        return self._names.setdefault(uid, uid)

    def tick(self, now: Seconds) -> None:
        """Forget whom it is time to forget."""
        for uid in [uid for uid, at in self._leave.items() if at <= now]:
            del self._leave[uid]
            self._gone.append(self._names.pop(uid))

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        return min(self._leave.values(), default=None)

    def take(self) -> PeerNews:
        """What was added since the last call."""
        if not (self._received or self._written or self._gone):
            return NO_NEWS
        # A pod that came in the place of another has its name, and one that is back goes on with its series.
        gone = tuple(name for name in self._gone if name not in self._names.values())
        news = PeerNews(self._received, self._written, gone)
        self._received, self._written, self._gone = Counter(), Counter(), []
        return news
