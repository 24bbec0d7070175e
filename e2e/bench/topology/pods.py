# SPDX-License-Identifier: Apache-2.0
"""Engine pods and their nodes, as watches of the benchmark's own show them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from e2e.bench.topology.api import Api, Event, Json
from e2e.bench.topology.tables import Matching, Sight
from e2e.cluster import nodes
from tandem_connector.contract.peers import PeerTable
from tandem_operator.api.names import ENGINE_LABEL, PEERS_ANNOTATION

PATH = "/api/v1/pods"
NODES_PATH = "/api/v1/nodes"


class Pods:
    """The engine pods of all resources, and what changed about them."""

    def __init__(self) -> None:
        self.matching = Matching()
        self.manifests: dict[str, Json] = {}
        """By UID."""
        self._tables: dict[str, tuple[str, PeerTable]] = {}
        self._lost: set[str] = set()

    def see(self, event: Event) -> None:
        """Take notice of a pod."""
        metadata = event.object["metadata"]
        uid = metadata["uid"]
        if event.type == "DELETED":
            self.manifests.pop(uid, None)
        else:
            self.manifests[uid] = event.object
        self.matching.see(
            Sight(
                at=event.at,
                resource=f"{metadata['namespace']}/{metadata['labels'][ENGINE_LABEL]}",
                uid=uid,
                ready=is_ready(event.object),
                ending="deletionTimestamp" in metadata,
                exists=event.type != "DELETED",
                node=event.object["spec"].get("nodeName", ""),
                table=self._table(uid, metadata.get("annotations", {}).get(PEERS_ANNOTATION, "")),
            )
        )

    def see_node(self, event: Event) -> None:
        """Take notice of a node."""
        name = event.object["metadata"]["name"]
        if nodes.is_ready(event.object):
            self._lost.discard(name)
        elif name not in self._lost:
            self._lost.add(name)
            self.matching.lose_node(name, event.at)

    def _table(self, uid: str, text: str) -> PeerTable | None:
        if not text:
            return None
        known = self._tables.get(uid)
        if known is None or known[0] != text:
            known = self._tables[uid] = (text, PeerTable.model_validate_json(text))
        return known[1]


def is_ready(pod: Json) -> bool:
    """Whether Kubernetes calls it ready."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@asynccontextmanager
async def watched(api: Api) -> AsyncIterator[Pods]:
    """All engine pods and nodes, kept up to date while it lasts."""
    pods = Pods()
    listed, version = await api.list(PATH, ENGINE_LABEL)
    for each in listed:
        pods.see(Event(time.monotonic(), "ADDED", each))
    _, nodes_version = await api.list(NODES_PATH)
    async with background(
        follow(api, PATH, version, ENGINE_LABEL, pods.see), follow(api, NODES_PATH, nodes_version, "", pods.see_node)
    ):
        yield pods


@asynccontextmanager
async def background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do the work beside the block, and end it afterwards; the block fails with it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        yield
        for task in tasks:
            task.cancel()


async def follow(api: Api, path: str, version: str, selector: str, see: Callable[[Event], None]) -> None:
    """Tell `see` of all that happens after `version`."""
    async for event in api.watch(path, version, selector):
        see(event)
