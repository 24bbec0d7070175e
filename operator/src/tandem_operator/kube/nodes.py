# SPDX-License-Identifier: Apache-2.0
"""The nodes that resources' pods run on: their objects, and which resource looks at which node."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from tandem_operator.kube.client import Client, Json
from tandem_operator.kube.kinds import NODE
from tandem_operator.kube.queue import Key
from tandem_operator.plan.types import Manifest

_PARALLEL_READS = 16
_LIST_LIFETIME = 30.0


class Nodes(Generic[Key]):
    """Reads nodes, and remembers them for a short time.

    A pool of n pods may look at n nodes whenever one pod changes. What planning reads of a node (its labels) hardly ever
    changes, and the watch of nodes tells when it does, so a node is read again only then, or when what is known is
    `lifetime` seconds old.
    """

    def __init__(self, client: Client, *, lifetime: float = 300.0, clock: Callable[[], float] | None = None) -> None:
        self._client = client
        self._lifetime = lifetime
        self._clock = clock or asyncio.get_running_loop().time
        self._known: dict[str, tuple[float, Manifest]] = {}
        self._used: dict[Key, frozenset[str]] = {}
        self._reads = asyncio.Semaphore(_PARALLEL_READS)
        self._changes = 0
        self._listed: dict[str, tuple[float, Sequence[Manifest]]] = {}

    async def look(self, key: Key, names: Iterable[str]) -> dict[str, Manifest]:
        """The nodes of these names that exist; from now on the resource `key` looks at these."""
        wanted = frozenset(names)
        self._used[key] = wanted
        nodes = await asyncio.gather(*(self._read(name) for name in sorted(wanted)))
        self._drop_unused()
        return {node["metadata"]["name"]: node for node in nodes if node is not None}

    async def labelled(self, selectors: Iterable[str]) -> dict[str, Sequence[Manifest]]:
        """All nodes with these labels, by label selector.

        A list of nodes is large, and is asked for only while a pod finds none; it is half a minute old at most.
        """
        wanted = sorted(set(selectors))
        for selector in [each for each, (at, _) in self._listed.items() if self._clock() - at >= _LIST_LIFETIME]:
            del self._listed[selector]
        for selector in wanted:
            if selector not in self._listed:
                listed = await self._client.list(NODE, None, selector)
                self._listed[selector] = (self._clock(), [_without_bulk(node) for node in listed.items])
        return {selector: self._listed[selector][1] for selector in wanted if selector in self._listed}

    def changed(self, name: str) -> list[Key]:
        """The node changed or went: forget what is known of it; the resources that look at it."""
        self._known.pop(name, None)
        self._changes += 1
        return [key for key, names in self._used.items() if name in names]

    def start_over(self) -> None:
        """The watch of nodes has lost its place: any of them may have changed or gone."""
        self._known.clear()
        self._changes += 1

    def forget(self, key: Key) -> None:
        """The resource is gone."""
        self._used.pop(key, None)
        self._drop_unused()

    async def _read(self, name: str) -> Manifest | None:
        read_at, node = self._known.get(name, (float("-inf"), None))
        if node is not None and self._clock() - read_at < self._lifetime:
            return node
        changes = self._changes
        async with self._reads:
            fresh = await self._client.get(NODE, None, name)
        if fresh is None:
            return None
        _without_bulk(fresh)
        # A read that was on its way when a node changed may have brought the older state.
        if changes == self._changes:
            self._known[name] = (self._clock(), fresh)
        return fresh

    def _drop_unused(self) -> None:
        used = frozenset().union(*self._used.values())
        for name in self._known.keys() - used:
            del self._known[name]


def _without_bulk(node: Json) -> Json:
    """Images and managed fields are most of a node's size."""
    node["metadata"].pop("managedFields", None)
    node.get("status", {}).pop("images", None)
    return node
