# SPDX-License-Identifier: Apache-2.0
"""Reads a resource and its engines' metrics, as often as somebody looks. Nothing is written."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tandem_connector.contract.environment import HTTP_PORT
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import KubeError
from tandem_operator.kubectl.reading import look, resources
from tandem_operator.kubectl.views.engine_metrics import Reading, Unreadable, reading
from tandem_operator.kubectl.views.flows import FlowsView, Readings, Silent, flows
from tandem_operator.plan.pods import EnginePod

LOOK_EVERY: Final = 2.0
"""Seconds between two looks, of the page and of `--once`."""
_FRESH: Final = 1.0
"""Seconds for which a look is shown again to others: two windows ask no more of a cluster than one."""
_PATIENCE: Final = 5.0
"""Seconds for an engine's answer, so that one that is frozen doesn't keep the others from being shown."""
_AT_A_TIME: Final = 16
"""Engines that are read at once."""


class FlowReader:
    """Looks at one resource, and remembers the last look.

    Args:
        client: of its cluster.
        namespace: of the resource.
        name: of the resource.
        clock: seconds, only going forward.
        patience: seconds for an engine's answer.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._patience = patience
        self._readings: Readings = {}
        self._shown: tuple[float, FlowsView] | None = None
        self._looking = asyncio.Lock()
        self._room = asyncio.Semaphore(_AT_A_TIME)

    async def current(self) -> FlowsView:
        """The resource as it is now.

        Raises:
            Failed, KubeError: it can't be read.
        """
        async with self._looking:
            if self._shown is None or self._clock() - self._shown[0] >= _FRESH:
                view = await self._look()
                self._shown = (self._clock(), view)
            return self._shown[1]

    async def _look(self) -> FlowsView:
        (found,) = await resources(self._client, self._namespace, [self._name])
        seen = await look(self._client, found, with_nodes=False)
        answers = await asyncio.gather(*map(self._ask, seen.pods))
        now = {pod.uid: answer for pod, answer in zip(seen.pods, answers, strict=True)}
        view = flows(seen, self._readings, now)
        self._readings = now
        return view

    async def _ask(self, pod: EnginePod) -> Reading | Silent:
        if pod.peer is None:
            return Silent("its process doesn't run yet, or not any more")
        try:
            async with self._room, asyncio.timeout(self._patience):
                text = await self._client.get_of_pod(self._namespace, pod.name, HTTP_PORT, "/metrics")
            return reading(text, self._clock())
        except TimeoutError:
            return Silent(f"it didn't answer within {self._patience:g} s")
        except (KubeError, Unreadable) as error:
            return Silent(str(error))
