# SPDX-License-Identifier: Apache-2.0
"""The children of resources: read when they may have changed, else remembered."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic

from tandem_operator.kube.client import Client
from tandem_operator.kube.kinds import CHILD_KINDS, Kind, kind_of
from tandem_operator.kube.news import News
from tandem_operator.kube.queue import Key
from tandem_operator.plan.children import key_of
from tandem_operator.plan.types import Manifest, ObjectKey

KNOWN_FOR: Final = 300.0


@dataclass
class _Known:
    """All objects of a kind that carry a resource's label."""

    at: float
    epoch: int
    objects: dict[ObjectKey, Manifest]


class Children(Generic[Key]):
    """Reads children, and remembers them for a time.

    Most looks are for a pod that changed, while a resource's dozen children stay as they are for days. They are read again
    when their watch has told something of them, or started over.

    Args:
        client: reads.
        news: knows what the watches told.
        known_for: seconds after which they are read again in any case.
        clock: seconds, monotonic; the event loop's unless given.
    """

    def __init__(
        self,
        client: Client,
        news: News[Key],
        *,
        known_for: float = KNOWN_FOR,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._news = news
        self._lifetime = known_for
        self._clock = clock or asyncio.get_running_loop().time
        self._known: dict[Key, dict[Kind, _Known]] = {}

    async def look(self, key: Key, namespace: str, selector: str) -> dict[ObjectKey, Manifest]:
        """All objects of kinds that may be children, with these labels, for the resource `key`."""
        known = self._known.setdefault(key, {})
        stale = [kind for kind in CHILD_KINDS if not self._is_current(key, kind, known.get(kind))]
        at, epoch = self._clock(), self._news.epoch
        lists = await asyncio.gather(*(self._client.list(kind, namespace, selector) for kind in stale))
        for kind, listed in zip(stale, lists, strict=True):
            self._news.read(key, kind.plural, listed.version)
            known[kind] = _Known(at, epoch, {key_of(each): each for each in listed.items})
        return {name: each for kind in CHILD_KINDS for name, each in known[kind].objects.items()}

    def changed(self, key: Key, live: Mapping[ObjectKey, Manifest], deleted: Iterable[ObjectKey]) -> None:
        """These are as the API server answered to our writes, and those were deleted."""
        for name, manifest in live.items():
            self._known[key][kind_of(name)].objects[name] = manifest
        for name in deleted:
            self._known[key][kind_of(name)].objects.pop(name, None)

    def forget(self, key: Key) -> None:
        """Read all anew at the next look: the resource is gone or another one, or what became of a write isn't known."""
        self._known.pop(key, None)

    def _is_current(self, key: Key, kind: Kind, known: _Known | None) -> bool:
        return (
            known is not None
            and known.epoch == self._news.epoch
            and self._clock() - known.at < self._lifetime
            and not self._news.about(key, kind.plural)
        )
