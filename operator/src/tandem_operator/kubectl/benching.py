# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark: reads the resource, goes to its front door, and reads its engines before and after."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from tandem_operator.api.names import FRONT_DOOR_PORT, front_door_name
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import KubeError
from tandem_operator.kubectl.asking import Asker
from tandem_operator.kubectl.engine_reading import ask_engines
from tandem_operator.kubectl.exits import Failed
from tandem_operator.kubectl.forwarding import Forward, forwarded
from tandem_operator.kubectl.reading import Whereabouts, look, resources
from tandem_operator.kubectl.views.bench import BenchView, Turn, depths_of, problems_of
from tandem_operator.kubectl.views.bench_engines import Asked, Readings, engines_did
from tandem_operator.kubectl.views.bench_plan import Plan
from tandem_operator.kubectl.views.flows import Silent
from tandem_operator.kubectl.views.seen import Seen

KEY: Final = "VLLM_API_KEY"
"""Environment variable with the key that the front door wants; the engines' own has this name."""


async def benched(
    client: Client,
    where: Whereabouts,
    name: str,
    plan: Plan,
    *,
    url: str | None,
    patience: float,
    told: Callable[[Turn], None],
) -> BenchView:
    """What came of it.

    Args:
        client: of the cluster.
        where: the cluster, and the resource's namespace.
        name: of the resource.
        plan: what is to be asked.
        url: of a front door that is reached without the cluster's help; None: kubectl forwards a port to the resource's Service.
        patience: seconds for a turn.
        told: called with each turn when it has ended.

    Raises:
        Failed: the resource can't be read, or kubectl doesn't forward.
    """
    seen = await _seen(client, where, name)
    resource = seen.observed.resource
    model = resource.spec.model.clients_name
    before = await _readings(client, seen)
    async with _way(where, name, url) as forward:
        began = time.monotonic()
        asker = Asker(forward.url, model, key=os.environ.get(KEY), patience=patience, told=told)
        turns = await asker.hold(plan)
        seconds = time.monotonic() - began
    after = await _readings_after(client, where, name, before)
    return BenchView(
        namespace=resource.metadata.namespace,
        name=name,
        model=model,
        way=url or f"kubectl port-forward to one pod of service/{front_door_name(name)}",
        plan=plan,
        seconds=seconds,
        depths=depths_of(plan, turns),
        problems=problems_of(turns),
        notes=tuple(f"kubectl port-forward: {each}" for each in dict.fromkeys(forward.complaints)),
        engines=engines_did(before, after),
        turns=turns,
    )


@asynccontextmanager
async def _way(where: Whereabouts, name: str, url: str | None) -> AsyncIterator[Forward]:
    if url is not None:
        yield Forward(url)
        return
    async with forwarded(where, front_door_name(name), FRONT_DOOR_PORT) as forward:
        yield forward


async def _seen(client: Client, where: Whereabouts, name: str) -> Seen:
    (found,) = await resources(client, where.chosen_namespace(), [name])
    return await look(client, found, with_nodes=False)


async def _readings(client: Client, seen: Seen) -> Readings:
    answers = await ask_engines(client, seen.observed.resource.metadata.namespace, seen.pods)
    return {pod.uid: Asked(pod.name, pod.role, answers[pod.uid]) for pod in seen.pods}


async def _readings_after(client: Client, where: Whereabouts, name: str, before: Readings) -> Readings:
    try:
        return await _readings(client, await _seen(client, where, name))
    except (Failed, KubeError) as error:
        # What was measured is told nevertheless.
        return {uid: replace(asked, told=Silent(str(error))) for uid, asked in before.items()}
