# SPDX-License-Identifier: Apache-2.0
"""kopf as the one that watches: nothing else of it is used, and it writes nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any, Final

import aiohttp
import kopf
import yarl
from kubernetes.aio.client.rest import RESTClientObject

from tandem_operator.api import names
from tandem_operator.kube.access import Access
from tandem_operator.kube.kinds import LABELLED_KINDS
from tandem_operator.kube.watches import Stream, Watches
from tandem_operator.wiring.triggers import Triggers
from tandem_operator.wiring.unstored import NoEssence, NoProgress

_CHILDREN: Final = tuple(
    (kind.group, kind.api_version.rpartition("/")[2], kind.plural)
    for kind in sorted(LABELLED_KINDS, key=lambda each: each.plural)
)
_PATIENCE: Final = 5.0
"""Seconds that kopf gets to end its requests."""
_PAUSES: Final = (0.5, 1.0, 2.0)
_LONGEST_PAUSE: Final = 5.0
"""Seconds."""
_NAMESPACED: Final = (names.PLURAL, *(plural for _, _, plural in _CHILDREN))


def expected_streams(namespaces: tuple[str, ...]) -> frozenset[Stream]:
    """The watches that kopf makes for these namespaces (none: all of the cluster)."""
    everywhere = namespaces or (None,)
    return frozenset(Stream(plural, namespace) for plural in _NAMESPACED for namespace in everywhere) | {
        Stream("nodes", None)
    }


async def watch(
    access: Access,
    triggers: Triggers,
    watches: Watches,
    *,
    namespaces: tuple[str, ...],
    watch_timeout: int,
    ready: asyncio.Event,
    stop: asyncio.Event,
) -> None:
    """Watch until `stop` is set.

    Args:
        access: address and credentials.
        triggers: are told of each event.
        watches: are told of each request.
        namespaces: to watch; none: the whole cluster.
        watch_timeout: seconds after which the API server ends a request.
        ready: is set when kopf runs and has put its signal handlers in place.
        stop: ends it.

    Raises:
        Exception: a watch failed for good. The process has to end, since kopf does not start it again.
    """
    # Not `kopf.operator`: after a failure that waits for the other watches, which then wait for credentials that nobody
    # brings any more; and it ends all tasks of the process that were started after it, those of others included.
    parts = await kopf.spawn_tasks(
        registry=_registry(access, triggers, watches),
        settings=_settings(watch_timeout),
        clusterwide=not namespaces,
        namespaces=namespaces,
        standalone=True,
        ready_flag=ready,
        stop_flag=stop,
    )
    try:
        ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # When one watch fails, kopf leaves the others running. They have to be ended before all tasks of the process are:
        # a watch that is cancelled together with its helpers takes that for a pause and starts anew.
        watchers = [task for task in asyncio.all_tasks() if task.get_name().startswith("watcher for ")]
        for task in (*parts, *watchers):
            task.cancel()
        await asyncio.wait([*parts, *watchers], timeout=_PATIENCE)
    for part in ended:
        part.result()


def _registry(access: Access, triggers: Triggers, watches: Watches) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    # Instead of kopf's own log-in, which would import and configure a second client. As a session of ours it tells of each
    # request, and its token is never older than the token file.
    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            server=access.configuration.host,
            aiohttp_session=aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(access.configuration).ssl_context),
                middlewares=(_authorize(access), _notice(watches, triggers)),
                proxy=access.configuration.proxy,
            ),
        )

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def resource_changed(event: Mapping[str, Any], **_: Any) -> None:
        triggers.resource(event)

    @kopf.on.event("", "v1", "nodes", registry=registry)
    async def node_changed(event: Mapping[str, Any], **_: Any) -> None:
        triggers.node(event)

    for group, version, plural in _CHILDREN:
        _watch_children(registry, triggers, group, version, plural)
    return registry


def _watch_children(registry: kopf.OperatorRegistry, triggers: Triggers, group: str, version: str, plural: str) -> None:
    @kopf.on.event(group, version, plural, registry=registry)
    async def child_changed(event: Mapping[str, Any], **_: Any) -> None:
        triggers.child(plural, event)


def _settings(watch_timeout: int) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # The CRD is there before kopf starts, and watching namespaces and CRDs would need rights to all of them.
    settings.scanning.disabled = True
    settings.networking.enforce_retry_after = True
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = _Pauses()
    settings.watching.server_timeout = watch_timeout
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    # Never used, but a finalizer of kopf's default name must not appear if that ever changes.
    settings.persistence.finalizer = f"{names.GROUP}/finalizer"
    settings.persistence.diffbase_storage = NoEssence()
    settings.persistence.progress_storage = NoProgress()
    for group, version, plural in _CHILDREN:
        settings.watching.label_selectors[(group, version, plural)] = names.RESOURCE_LABEL
    return settings


_Handler = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
_Middleware = Callable[[aiohttp.ClientRequest, _Handler], Awaitable[aiohttp.ClientResponse]]


def _authorize(access: Access) -> _Middleware:
    async def authorize(request: aiohttp.ClientRequest, handler: _Handler) -> aiohttp.ClientResponse:
        if header := await access.authorization():
            request.headers["Authorization"] = header
        return await handler(request)

    return authorize


def _notice(watches: Watches, triggers: Triggers) -> _Middleware:
    async def notice(request: aiohttp.ClientRequest, handler: _Handler) -> aiohttp.ClientResponse:
        stream = _stream_of(request.url)
        if "watch" in request.url.query:
            watches.asked(stream)
            return await handler(request)
        answer = await handler(request)
        # Of a list in several pages, the first one says that there is a new list.
        if answer.status == 200 and "continue" not in request.url.query:
            triggers.listed(stream)
        return answer

    return notice


def _stream_of(url: yarl.URL) -> Stream:
    """The watch that a request is of. What kopf asks to find out about the API server names none that there has to be."""
    *_, parent, grandparent_or_version, plural = ("", "", *url.parts)
    return Stream(plural, grandparent_or_version if parent == "namespaces" else None)


class _Pauses:
    """Between two attempts of a request, without end.

    kopf's own become longer and end after a minute, with which the watch and the process would: a watch that an API server refuses for
    longer than that goes on soon after it is served again, and its process isn't held up by the growing pauses between restarts.
    """

    def __iter__(self) -> Iterator[float]:
        return chain(_PAUSES, repeat(_LONGEST_PAUSE))
