# SPDX-License-Identifier: Apache-2.0
"""One change after another, each chosen from what the API server tells when the last one is over."""

import asyncio
import subprocess
from collections.abc import Callable

from e2e.chaos.topology.carry_out import Carrier
from e2e.chaos.topology.changes import Bounds, Change, Chooser
from e2e.chaos.topology.pods import Pods
from e2e.cluster.interface import GaveUpError
from e2e.kubectl import KubectlError

_LOOKS = 300
"""A tenth of a second apart, for a change that was made to be told."""


class Changing:
    """Of one resource's engines. For one event loop."""

    def __init__(
        self, pods: Pods, carrier: Carrier, chooser: Chooser, bounds: Bounds, say: Callable[[str], None]
    ) -> None:
        """Nothing has been changed yet.

        Args:
            pods: its engines, watched.
            carrier: makes the changes.
            chooser: draws them.
            bounds: how many engines there may be.
            say: is told of each change.
        """
        self._pods = pods
        self._carrier = carrier
        self._chooser = chooser
        self._bounds = bounds
        self._say = say
        self.made: list[Change] = []
        self.undone: list[str] = []
        """Changes that could not be made, and why."""

    async def look(self) -> None:
        """Make one, if one can be made now; return when the API server tells of it."""
        change = self._chooser.next(self._pods.seen(), self._bounds)
        if change is None:
            return
        self._say(f"{change.kind} {change.pod}")
        before = self._there(change.pod)
        try:
            await asyncio.to_thread(self._carrier.carry_out, change)
        except (KubectlError, GaveUpError, subprocess.TimeoutExpired) as error:
            self.undone.append(f"{change.kind} {change.pod}: {error}")
            return
        if await self._is_told(change.pod, before):
            self.made.append(change)
        else:
            self.undone.append(f"{change.kind} {change.pod}: nothing came of it")

    async def _is_told(self, pod: str, before: set[str]) -> bool:
        """Wait until the watch has it, as what comes next is chosen from what is seen; whether it has."""
        for _ in range(_LOOKS):
            if self._there(pod) != before:
                return True
            await asyncio.sleep(0.1)
        return False

    def _there(self, name: str) -> set[str]:
        """UIDs of pods of this name that aren't being deleted."""
        return {life.uid for life in self._pods.present() if life.name == name and life.deleted is None}
