# SPDX-License-Identifier: Apache-2.0
"""Changes in engines' pods, made as kubelets, users and nodes make them, one after the other in each resource."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import cycle

from e2e.bench.topology.api import MERGE, STRATEGIC, Api, Json
from e2e.bench.topology.pods import Pods, is_ready
from e2e.bench.topology.tables import Sight
from e2e.cluster.local.simulated import KEPT_AS_IT_IS
from tandem_connector.contract.types import EngineState

PAUSE = 0.2
"""Seconds between two changes of one driver, in which the operator comes to rest; unless told otherwise."""
_LOOKED_EVERY = 0.01
_LONGEST = 60.0
_SAID_EVERY = 25
"""Changes."""


class Changer:
    """Makes changes and waits until the tables say them.

    Args:
        api: with the rights of everybody who changes pods.
        pods: as they are seen.
        may_change: which pods.
        seed: of the choice of pods.
        pause: seconds between two changes of one driver.
    """

    def __init__(
        self,
        api: Api,
        pods: Pods,
        may_change: Callable[[Sight], bool] = lambda _: True,
        *,
        seed: int = 0,
        pause: float = PAUSE,
    ) -> None:
        self._api = api
        self._pods = pods
        self._may_change = may_change
        self._random = random.Random(seed)
        self._pause = pause
        self._busy: set[str] = set()

    async def make(self, rounds: int, *, at_once: int, deletions: bool = True) -> None:
        """So many rounds, of which each is a pod that isn't ready for a moment, or (one in three) a pod that is deleted.

        Args:
            rounds: how many.
            at_once: in how many resources at the same time.
            deletions: without, it is never a pod that is deleted.
        """
        left = iter(range(rounds))
        drivers = min(at_once, sum(1 for name in self._pods.matching.resources() if self._eligible(name)))

        async def drive() -> None:
            for number in left:
                if number % _SAID_EVERY == 0:
                    print(f"round {number} of {rounds}, {at_once} at once", file=sys.stderr, flush=True)
                resource = self._take()
                try:
                    await (self._delete if deletions and number % 3 == 0 else self._flip)(resource)
                finally:
                    self._busy.discard(resource)

        await asyncio.gather(*(drive() for _ in range(drivers)))

    async def lose_nodes(self, count: int) -> None:
        """Let so many nodes be not ready, one after the other, and ready again when the tables say it."""
        used = sorted({pod.node for name in self._pods.matching.resources() for pod in self._eligible(name)})
        for number, node in enumerate(self._random.sample(used, min(count, len(used)))):
            print(f"node {number} of {count}", file=sys.stderr, flush=True)
            await self._lose(node)

    async def _flip(self, resource: str) -> None:
        pod = self._random.choice(self._eligible(resource))
        for ready in (False, True):
            await self._set_ready(pod.uid, ready)
            await self._until(f"{resource} to tell of a pod: {ready}", partial(self._is_told, pod, ready))
            await asyncio.sleep(self._pause)

    async def _delete(self, resource: str) -> None:
        pods = self._all(resource)
        chosen = self._random.choice(self._eligible(resource))
        metadata = self._pods.manifests[chosen.uid]["metadata"]
        await self._api.request("DELETE", _path(metadata))
        await self._until(
            f"{resource} to have a pod back",
            lambda: metadata["uid"] not in self._pods.manifests and self._is_at_rest(resource, len(pods)),
        )
        await asyncio.sleep(self._pause)

    async def _lose(self, node: str) -> None:
        path = f"/api/v1/nodes/{node}"
        concerned = {
            name for name in self._pods.matching.resources() if any(pod.node == node for pod in self._all(name))
        }
        sizes = {name: len(self._all(name)) for name in concerned}
        await self._annotate(path, "")
        condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "made so"}
        await self._api.request("PATCH", f"{path}/status", {"status": {"conditions": [condition]}}, STRATEGIC)
        await self._until(f"{node} to be told as lost", lambda: self._is_lost(node))
        await asyncio.sleep(self._pause)
        await self._annotate(path, None)

        async def revive() -> None:
            # Whom the node controller has called unready meanwhile, its kubelet would call ready again.
            for name in concerned:
                for pod in self._all(name):
                    if not pod.ready:
                        await self._set_ready(pod.uid, True)

        await self._until(
            f"{node} to be told as back",
            lambda: all(self._is_at_rest(name, size) for name, size in sizes.items()),
            meanwhile=revive,
        )

    def _is_lost(self, node: str) -> bool:
        """Whether no table says that an engine there is ready."""
        matching = self._pods.matching
        there = {uid for name in matching.resources() for uid, pod in matching.pods(name).items() if pod.node == node}
        return not any(change.uid in there for change in matching.pending) and not any(
            peer.state is EngineState.READY and peer.engine.rpartition("-")[0] in there
            for name in matching.resources()
            for pod in self._all(name)
            for peer in (pod.table.peers if pod.table else ())
        )

    def _is_at_rest(self, resource: str, size: int) -> bool:
        """Whether it has so many engines, and all tables say that all of them are ready."""
        pods = self._all(resource)
        return (
            len(pods) == size
            and self._pods.matching.is_settled(resource)
            and all(pod.ready and pod.table and pod.table.peers for pod in pods)
            and all(peer.state is EngineState.READY for pod in pods if pod.table for peer in pod.table.peers)
        )

    def _is_told(self, pod: Sight, ready: bool) -> bool:
        return is_ready(self._pods.manifests[pod.uid]) is ready and self._pods.matching.is_settled(pod.resource)

    def _all(self, resource: str) -> Sequence[Sight]:
        return list(self._pods.matching.pods(resource).values())

    def _eligible(self, resource: str) -> Sequence[Sight]:
        return [each for each in self._all(resource) if self._may_change(each)]

    def _take(self) -> str:
        free = [name for name in self._pods.matching.resources() if name not in self._busy and self._eligible(name)]
        chosen = self._random.choice(free)
        self._busy.add(chosen)
        return chosen

    async def _set_ready(self, uid: str, ready: bool) -> None:
        status = "True" if ready else "False"
        conditions = [{"type": kind, "status": status} for kind in ("ContainersReady", "Ready")]
        path = f"{_path(self._pods.manifests[uid]['metadata'])}/status"
        await self._api.request("PATCH", path, {"status": {"conditions": conditions}}, STRATEGIC)

    async def _annotate(self, path: str, value: str | None) -> None:
        await self._api.request("PATCH", path, {"metadata": {"annotations": {KEPT_AS_IT_IS: value}}}, MERGE)

    async def _until(
        self, what: str, is_so: Callable[[], bool], meanwhile: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        try:
            async with asyncio.timeout(_LONGEST):
                for number in cycle(range(100)):
                    if is_so():
                        return
                    if meanwhile and number == 0:
                        await meanwhile()
                    await asyncio.sleep(_LOOKED_EVERY)
        except TimeoutError:
            raise TimeoutError(f"gave up waiting for {what} after {_LONGEST:.0f} s") from None


def _path(metadata: Json) -> str:
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
