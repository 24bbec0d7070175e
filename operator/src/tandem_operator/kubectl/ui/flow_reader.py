# SPDX-License-Identifier: Apache-2.0
"""Reads a resource and its engines' metrics, as often as somebody looks. Nothing is written."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tandem_operator.kube.client import Client
from tandem_operator.kubectl.engine_reading import PATIENCE, ask_engines
from tandem_operator.kubectl.reading import look, resources
from tandem_operator.kubectl.views.flows import FlowsView, Readings, flows

LOOK_EVERY: Final = 2.0
"""Seconds between two looks, of the page and of `--once`."""
_FRESH: Final = 1.0
"""Seconds for which a look is shown again to others: two windows ask no more of a cluster than one."""


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
        patience: float = PATIENCE,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._patience = patience
        self._readings: Readings = {}
        self._shown: tuple[float, FlowsView] | None = None
        self._looking = asyncio.Lock()

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
        now = await ask_engines(self._client, self._namespace, seen.pods, clock=self._clock, patience=self._patience)
        view = flows(seen, self._readings, now)
        self._readings = now
        return view
