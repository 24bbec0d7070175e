# SPDX-License-Identifier: Apache-2.0
"""Load and changes together for as long as is asked for, and load until all engines are ready again."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from e2e.chaos.topology.changing import Changing
from e2e.chaos.topology.clients import Clients
from e2e.chaos.topology.pods import Pods

LINE_EVERY = 10.0
PAUSE = 2.0
"""Seconds between two looks for a change that can be made."""


class Churn:
    """On one resource whose engines are ready."""

    def __init__(
        self,
        pods: Pods,
        clients: Clients,
        changing: Changing,
        *,
        is_ready: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        """Nothing yet.

        Args:
            pods: the resource's engines, watched.
            clients: who speaks; they are closed at the end.
            changing: makes the changes.
            is_ready: whether the operator says so of the resource. May take a while.
            say: is told how it stands, now and then.
        """
        self._pods = pods
        self._clients = clients
        self._changing = changing
        self._is_ready = is_ready
        self._say = say

    async def run(self, seconds: float, clients: int, ready_within: float) -> None:
        """Load by so many clients, changes for so many seconds; returns at the latest so long after the last change."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
        over = asyncio.Event()
        telling = asyncio.create_task(self._tell())
        try:
            async with asyncio.TaskGroup() as talking:
                for client in range(clients):
                    talking.create_task(self._clients.talk(client, over))
                try:
                    await self._change(seconds)
                    await self._until_ready(ready_within)
                finally:
                    over.set()
        finally:
            telling.cancel()
            await self._clients.close()

    async def _change(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._clients.starting = self._starts()
            await self._changing.look()
            await asyncio.sleep(PAUSE)

    async def _until_ready(self, within: float) -> None:
        """What isn't ready then is said by whoever looks next."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            self._clients.starting = self._starts()
            pods = self._pods.seen()
            if all(pod.ready and not pod.ends for pod in pods) and await asyncio.to_thread(self._is_ready):
                return
            await asyncio.sleep(PAUSE)

    def _starts(self) -> bool:
        return not all(pod.ready or pod.ends for pod in self._pods.seen())

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(LINE_EVERY)
            pods = ", ".join(
                f"{pod.name} {'ends' if pod.ends else 'ready' if pod.ready else 'starts'}" for pod in self._pods.seen()
            )
            self._say(f"{len(self._clients.turns)} turns, {self._clients.under_way} under way; {pods}")
