# SPDX-License-Identifier: Apache-2.0
"""A proxy between one operator and the API server: it can fail as networks and API servers do, and notes what was asked."""

import asyncio
import json
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import aiohttp
import yarl
from aiohttp import web

from e2e.cluster.local.endpoints import LOOPBACK, free_port

_ASKED = ("Accept", "Authorization", "Content-Type", "User-Agent")
_ANSWERED = ("Content-Type", "Retry-After")
_RESET = struct.pack("ii", 1, 0)
"""With such a linger time a socket that is closed sends a reset."""
_LOOKED_EVERY = 0.02


@dataclass(frozen=True)
class Refuse:
    """Requests are answered with one of these statuses."""

    statuses: tuple[int, ...]
    share: float = 1.0
    """Of requests, that are; the others are passed on."""
    retry_after: int | None = None
    """Seconds, as the header says."""
    only_watches: bool = False


@dataclass(frozen=True)
class Slow:
    """Requests are passed on so many seconds later."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """The connection is reset."""

    share: float = 1.0
    """Of requests, at which it is."""
    passed_on: bool = False
    """The API server got the request, and its answer is lost."""


@dataclass(frozen=True)
class Mute:
    """Watches stay open and tell nothing."""


@dataclass(frozen=True)
class Hold:
    """Answers to lists of pods are kept back, until there is another trouble or none."""


Trouble: TypeAlias = Refuse | Slow | Reset | Mute | Hold


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    at: float
    """Seconds of the monotonic clock, at its arrival."""
    method: str
    path: str
    by: str
    """Whose proxy it came to."""
    status: int = 0
    """Of the API server's answer; 0: none came."""


class Proxy:
    """One, on a thread of its own, as a context.

    Args:
        name: of who uses it.
        server: the API server's URL.
        authority: certificate of the API server's authority.
        seed: of what is left to chance.
    """

    def __init__(self, name: str, server: str, authority: Path, seed: int) -> None:
        self.name = name
        self.trouble: Trouble | None = None
        """What happens from now on; may be set from any thread."""
        self.held = 0
        """Answers that are kept back."""
        self._server = server
        self._tls = ssl.create_default_context(cafile=authority)
        self._random = random.Random(f"{name} {seed}")
        self._port = free_port()
        self._asked: list[Asked] = []
        self._watching: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._serves = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"proxy of {name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._serves.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        """Where it listens, without TLS."""
        return f"http://{LOOPBACK}:{self._port}"

    def asked(self) -> list[Asked]:
        """All requests that have ended."""
        return list(self._asked)

    def cut_watches(self) -> None:
        """Reset the connections of all watches that are open."""

        def cut() -> None:
            for transport in self._watching:
                _reset(transport)

        self._loop.call_soon_threadsafe(cut)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        # Whatever the requests' size: the API server has a limit of its own.
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as self._session:
            await web.TCPSite(runner, LOOPBACK, self._port).start()
            self._serves.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        at, body, status = time.monotonic(), await request.read(), 0
        try:
            match self.trouble:
                case Refuse() as refusal if self._hits(refusal.share) and (
                    _is_watch(request) or not refusal.only_watches
                ):
                    return _refusal(self._random.choice(refusal.statuses), refusal.retry_after)
                case Slow(seconds):
                    await asyncio.sleep(self._random.uniform(0.5, 1.0) * seconds)
                case Reset(share, passed_on=False) if self._hits(share):
                    return _broken(request)
            url = yarl.URL(self._server + request.raw_path, encoded=True)
            headers = _some(request.headers.items(), _ASKED)
            async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
                status = answer.status
                if _is_watch(request) and status == 200:
                    return await self._pass_on(request, answer)
                content = await answer.read()
                await self._hold_back(request)
                match self.trouble:
                    case Reset(share, passed_on=True) if self._hits(share):
                        return _broken(request)
                return web.Response(status=status, body=content, headers=_some(answer.headers.items(), _ANSWERED))
        except (aiohttp.ClientError, OSError):
            return _broken(request)
        finally:
            self._asked.append(Asked(at, request.method, request.path, self.name, status))

    async def _hold_back(self, request: web.Request) -> None:
        is_held = request.method == "GET" and request.path.endswith("/pods")
        if is_held and isinstance(self.trouble, Hold):
            self.held += 1
            while isinstance(self.trouble, Hold):  # noqa: ASYNC110 -- it is set by another thread
                await asyncio.sleep(_LOOKED_EVERY)
            self.held -= 1

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers=_some(answer.headers.items(), _ANSWERED))
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        self._watching.add(transport)
        try:
            async for chunk in answer.content.iter_any():
                await self._while_mute()
                await response.write(chunk)
            await self._while_mute()
        finally:
            self._watching.discard(transport)
        return response

    async def _while_mute(self) -> None:
        while isinstance(self.trouble, Mute):  # noqa: ASYNC110 -- it is set by another thread
            await asyncio.sleep(_LOOKED_EVERY)

    def _hits(self, share: float) -> bool:
        return self._random.random() < share


def _is_watch(request: web.Request) -> bool:
    return "watch" in request.query


def _some(headers: Iterable[tuple[str, str]], names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in headers if name.title() in names}


def _refusal(status: int, retry_after: int | None) -> web.Response:
    said: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "made so",
        "code": status,
    }
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return web.Response(status=status, text=json.dumps(said), content_type="application/json", headers=headers)


def _broken(request: web.Request) -> web.Response:
    """What a handler returns to whom nobody listens any more."""
    if isinstance(request.transport, asyncio.Transport):
        _reset(request.transport)
    return web.Response()


def _reset(transport: asyncio.Transport) -> None:
    if (connection := transport.get_extra_info("socket")) is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
