# SPDX-License-Identifier: Apache-2.0
"""Reads what views are made of from the API server."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from tandem_operator.api import names
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.kube.access import Access, NoAccess, chosen_namespace, find_access
from tandem_operator.kube.client import Client, Json
from tandem_operator.kube.errors import Gone, KubeError, Refused
from tandem_operator.kube.kinds import DEPLOYMENT, EVENT, NODE, POD, RESOURCE, STATEFUL_SET, Kind
from tandem_operator.kube.observe import observed_of
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.views.seen import Seen
from tandem_operator.metrics import Metrics
from tandem_operator.plan.children import key_of

_RENEW_AGAIN: Final = 60.0
"""Seconds after credentials couldn't be renewed."""


@dataclass(frozen=True)
class Whereabouts:
    """Which cluster and namespace the command line means."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def chosen_namespace(self) -> str:
        """The namespace, the context's unless one is named."""
        return self.namespace or chosen_namespace(self.kubeconfig, self.context)


@asynccontextmanager
async def connected(where: Whereabouts) -> AsyncIterator[Client]:
    """A client of that cluster.

    Raises:
        Failed: it can't be reached, or refuses.
    """
    try:
        access = await find_access(where.kubeconfig, where.context)
    except NoAccess as error:
        words = f"no access to a cluster: {error.__cause__}; name a kubeconfig by --kubeconfig or KUBECONFIG"
        raise Failed(Exit.NO_CLUSTER, words) from error
    async with Client(access.configuration, Metrics(CollectorRegistry()), timeout=20.0) as client:
        fresh = asyncio.create_task(_keep_fresh(access))
        try:
            yield client
        except KubeError as error:
            raise Failed(Exit.NO_CLUSTER, str(error)) from error
        finally:
            fresh.cancel()


async def _keep_fresh(access: Access) -> None:
    """Renew credentials for as long as a command runs, which for `ui` is longer than a token of EKS lasts."""
    while True:
        # That one can't be renewed is told by what the server answers when it has run out.
        with suppress(Exception):
            await access.keep_fresh()
        await asyncio.sleep(_RENEW_AGAIN)


async def resources(client: Client, namespace: str, names_: Iterable[str]) -> list[Json]:
    """The resources of these names, or all of the namespace.

    Raises:
        Failed: one isn't there, or the cluster doesn't know the kind.
    """
    if wanted := list(names_):
        found = await asyncio.gather(*(client.get(RESOURCE, namespace, name, patient=False) for name in wanted))
        missing = [name for name, each in zip(wanted, found, strict=True) if each is None]
        if missing and not await client.is_served(RESOURCE):
            raise Failed(Exit.NOT_FOUND, f"the cluster doesn't know {names.KIND}: install Tandem's chart")
        if missing:
            raise Failed(Exit.NOT_FOUND, f"no {names.KIND} {', '.join(missing)} in namespace {namespace}")
        return [each for each in found if each is not None]
    if not await client.is_served(RESOURCE):
        raise Failed(Exit.NOT_FOUND, f"the cluster doesn't know {names.KIND}: install Tandem's chart")
    return (await client.list(RESOURCE, namespace, "")).items


async def look(client: Client, resource: Json, *, with_nodes: bool = True, with_events: bool = False) -> Seen:
    """A resource and its surroundings.

    Without nodes nothing is known of zones and network layers, and of a lost node only when Kubernetes says so of its pods. Nodes and
    events are done without where there is no right to list them, as the role `view` has none to nodes.

    Raises:
        Failed: this version can't read the resource.
    """
    try:
        read = DisaggregatedInference.model_validate(resource)
    except ValidationError as error:
        raise Failed(Exit.NOT_WELL, f"this version of kubectl-tandem can't read the resource: {error}") from error
    namespace, name = read.metadata.namespace, read.metadata.name
    selector = f"{names.RESOURCE_LABEL}={name}"
    children, pods = await asyncio.gather(
        _all(client, (STATEFUL_SET, DEPLOYMENT), namespace, selector),
        client.list(POD, namespace, f"{names.ENGINE_LABEL}={name}"),
    )
    observed = observed_of(read, datetime.now(UTC), {key_of(each): each for each in children}, pods.items)
    unread: list[str] = []
    nodes = await optional(client, NODE, None, unread) if with_nodes else []
    events = await optional(client, EVENT, namespace, unread) if with_events else []
    return Seen(
        observed=replace(observed, nodes={node["metadata"]["name"]: node for node in nodes}),
        events=tuple(events),
        unread=tuple(unread),
    )


async def optional(
    client: Client, kind: Kind, namespace: str | None, unread: list[str], selector: str = ""
) -> list[Json]:
    """All objects of a kind; none, and a word in `unread`, where there is no right to list them, or no such kind."""
    try:
        return (await client.list(kind, namespace, selector)).items
    except (Refused, Gone) as error:
        unread.append(f"{kind.plural}: {error}")
        return []


async def _all(client: Client, kinds: Iterable[Kind], namespace: str, selector: str) -> list[Json]:
    lists = await asyncio.gather(*(client.list(kind, namespace, selector) for kind in kinds))
    return [each for listed in lists for each in listed.items]
