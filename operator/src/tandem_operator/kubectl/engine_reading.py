# SPDX-License-Identifier: Apache-2.0
"""Reads engines' metrics through the API server."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from tandem_connector.contract.environment import HTTP_PORT
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import KubeError
from tandem_operator.kubectl.views.engine_metrics import Reading, Unreadable, reading
from tandem_operator.kubectl.views.flows import Silent
from tandem_operator.plan.pods import EnginePod

PATIENCE: Final = 5.0
"""Seconds for an engine's answer, so that one that is frozen doesn't keep the others from being shown."""
_AT_A_TIME: Final = 16
"""Engines that are read at once."""


async def ask_engines(
    client: Client,
    namespace: str,
    pods: Sequence[EnginePod],
    *,
    clock: Callable[[], float] = time.monotonic,
    patience: float = PATIENCE,
) -> dict[str, Reading | Silent]:
    """What each of them tells, or why it doesn't, by the pod's UID."""
    room = asyncio.Semaphore(_AT_A_TIME)

    async def ask(pod: EnginePod) -> Reading | Silent:
        if pod.peer is None:
            return Silent("its process doesn't run yet, or not any more")
        try:
            async with room, asyncio.timeout(patience):
                text = await client.get_of_pod(namespace, pod.name, HTTP_PORT, "/metrics")
            return reading(text, clock())
        except TimeoutError:
            return Silent(f"it didn't answer within {patience:g} s")
        except (KubeError, Unreadable) as error:
            return Silent(str(error))

    answers = await asyncio.gather(*map(ask, pods))
    return {pod.uid: answer for pod, answer in zip(pods, answers, strict=True)}
