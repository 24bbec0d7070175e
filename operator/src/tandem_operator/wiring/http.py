# SPDX-License-Identifier: Apache-2.0
"""The operator's own HTTP endpoints: /healthz, /readyz, /metrics."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_log = structlog.get_logger()

Check = Callable[[], list[str]]
"""Says what is wrong; nothing is, if empty."""


@asynccontextmanager
async def serving(
    host: str, port: int, *, alive: Check, ready: Check, registry: CollectorRegistry
) -> AsyncIterator[int]:
    """Serve while the block runs; the port. A failed check answers 503 with what is wrong, one reason a line."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/healthz", _answer("not alive", alive))
    application.router.add_get("/readyz", _answer("not ready", ready))
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound: int = runner.addresses[0][1]
        _log.info("serving", port=bound)
        yield bound
    finally:
        await runner.cleanup()


def _answer(event: str, check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        if wrong := check():
            _log.warning(event, reasons=wrong)
            return web.Response(status=503, text="\n".join(wrong) + "\n")
        return web.Response(text="ok\n")

    return answer
