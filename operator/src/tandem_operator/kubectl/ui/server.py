# SPDX-License-Identifier: Apache-2.0
"""The page and its state over HTTP, on 127.0.0.1 only.

Programs of this machine can connect to it, and so can every page that a browser here shows. So nothing can be done through it, the
page lets nothing in that isn't its own, and a name of elsewhere that is made to lead here (DNS rebinding) is refused by its Host
header.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.resources import files
from typing import Final

from aiohttp import web

from tandem_operator.kube.errors import KubeError
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.views.flows import FlowsView

_HOST: Final = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?", re.IGNORECASE)
_INLINE: Final = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page() -> str:
    """The page, the same for every resource."""
    return files("tandem_operator.kubectl.ui").joinpath("page.html").read_text(encoding="utf-8")


@asynccontextmanager
async def serving(current: Callable[[], Awaitable[FlowsView]], port: int) -> AsyncIterator[str]:
    """Serve while the block runs; the page's URL.

    Args:
        current: looks at the resource; raises `Failed` or `KubeError`.
        port: 0 for one that is free.

    Raises:
        Failed: the port can't be had.
    """
    html = page()
    headers = _headers(html)

    async def show(_: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html")

    async def state(_: web.Request) -> web.Response:
        try:
            view = await current()
        except (Failed, KubeError) as error:
            return web.json_response({"error": str(error)}, status=502)
        return web.Response(text=view.model_dump_json(by_alias=True), content_type="application/json")

    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)

    application = web.Application(middlewares=[_only_by_a_name_of_this_machine])
    application.on_response_prepare.append(add_headers)
    application.router.add_get("/", show)
    application.router.add_get("/state", state)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        except OSError as error:
            raise Failed(
                Exit.USAGE, f"port {port} can't be had: {error.strerror}; without --port one is chosen"
            ) from error
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@web.middleware
async def _only_by_a_name_of_this_machine(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    # The port is left open: a forwarded one (`ssh -L`) may have another number.
    if not _HOST.fullmatch(request.headers.get("Host", "")):
        raise web.HTTPForbidden(text="This page is served to http://127.0.0.1 and http://localhost only.\n")
    return await handler(request)


def _headers(html: str) -> dict[str, str]:
    """The page's own script and style are let in by their hashes, and nothing else is."""
    hashes = {
        kind: f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for kind, text in _INLINE.findall(html)
    }
    policy = (
        "default-src 'none'",
        f"script-src {hashes['script']}",
        f"style-src {hashes['style']}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
