# SPDX-License-Identifier: Apache-2.0
"""Evicts engine pods.

An eviction is what `kubectl drain` does too: the pod's disruption budget is kept, its preStop hook hands over what it holds, and its
StatefulSet makes it anew.
"""

import asyncio

from tandem_operator.api.names import ENGINE_LABEL
from tandem_operator.kube.client import Client
from tandem_operator.kube.kinds import POD
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.reading import look, resources
from tandem_operator.kubectl.views.drain import Drain, Drained, drain_of

_LOOK_EVERY = 1.0


async def prepared(client: Client, namespace: str, pod: str) -> tuple[Drain, str]:
    """What is known of the pod, and its uid.

    Raises:
        Failed: it isn't there, or is no engine.
    """
    manifest = await client.get(POD, namespace, pod, patient=False)
    if manifest is None:
        raise Failed(Exit.NOT_FOUND, f"no pod {pod} in namespace {namespace}")
    resource = (manifest["metadata"].get("labels") or {}).get(ENGINE_LABEL)
    found = await resources(client, namespace, [resource]) if resource else []
    drain = drain_of(await look(client, found[0]), pod) if found else None
    if drain is None:
        raise Failed(Exit.USAGE, f"pod {pod} is no engine that runs: kubectl tandem status lists those that there are")
    return drain, manifest["metadata"]["uid"]


async def drained(client: Client, drain: Drain, uid: str, *, patience: float | None) -> Drained:
    """Evict the pod, and wait until it is gone, for `patience` seconds at most; None: don't wait."""
    if not await client.evict(drain.namespace, drain.pod, uid):
        words = f"its disruption budget doesn't allow it now: kubectl --namespace {drain.namespace} get pdb"
        return Drained(drain=drain, done=False, words=words)
    if patience is None:
        return Drained(drain=drain, done=True, words="evicted")
    try:
        async with asyncio.timeout(patience):
            while await _is_there(client, drain, uid):  # noqa: ASYNC110 -- what is waited for is in another process
                await asyncio.sleep(_LOOK_EVERY)
    except TimeoutError:
        return Drained(drain=drain, done=False, words=f"evicted, and not gone after {patience:g} s: it still drains")
    return Drained(drain=drain, done=True, words="gone")


async def _is_there(client: Client, drain: Drain, uid: str) -> bool:
    pod = await client.get(POD, drain.namespace, drain.pod)
    return pod is not None and pod["metadata"]["uid"] == uid
