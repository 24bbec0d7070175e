# SPDX-License-Identifier: Apache-2.0
"""A prefill engine's HTTP server that behaves in one way, good or bad, on a thread of its own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from aiohttp import web

GOOD = {"id": "x", "choices": [{"text": "", "finish_reason": "length"}]}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpEngine:
    """Serves `/v1/completions` by `handler`; counts what vLLM would count."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._finish = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0
        self.began = threading.Event()
        """A request has come."""
        self.aborted = threading.Event()
        """A request's connection was closed before the answer."""
        self.connections: set[object] = set()
        self.requests: list[tuple[dict[str, str], bytes]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._finish.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/completions"

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        application = web.Application()
        application.router.add_post("/v1/completions", self._handle)
        # As vLLM: the handler is cancelled when the client disconnects.
        server = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await server.setup()
        site = web.TCPSite(server, "127.0.0.1", 0)
        await site.start()
        self.port = server.addresses[0][1]
        self._ready.set()
        await self._finish.wait()
        await server.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(request.transport)
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((headers, await request.read()))
        self.began.set()
        try:
            return await self._handler(request)
        except asyncio.CancelledError:
            self.aborted.set()
            raise


async def answers(request: web.Request) -> web.StreamResponse:
    return web.json_response(GOOD)


async def hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3_600)
    raise AssertionError


async def breaks(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": "CUDA out of memory"}, status=500)


async def talks_nonsense(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x00\xffnonsense")


async def talks_without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


async def redirects(request: web.Request) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect("http://127.0.0.1:1/elsewhere")


async def closes_at_once(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def closes_amid_the_answer(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices":[')
    assert request.transport is not None
    request.transport.close()
    return response


async def hangs_amid_the_answer(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices":[')
    await asyncio.sleep(3_600)
    return response
