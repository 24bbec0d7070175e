# SPDX-License-Identifier: Apache-2.0
"""A front door that streams as vLLM does, and fails in the ways that one may."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

TOKENS = ("Of", " course", ",", " here")


class Door:
    """What it was asked, and how it answers: `behave` gets the request's messages and names a way."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = 0
        self.behave: Callable[[list[dict[str, str]]], str] = lambda _: "well"
        self._open = 0
        self._enough = asyncio.Event()
        self.wait_for = 1
        """No answer begins before so many requests were open at once."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self._open += 1
        self.at_once = max(self.at_once, self._open)
        if self._open >= self.wait_for:
            self._enough.set()
        await self._enough.wait()
        try:
            return await self._answer(request, body)
        finally:
            self._open -= 1

    async def _answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        way = self.behave(body["messages"])
        if way == "503":
            return web.Response(status=503, text="no engine\n  is there")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": kept open\r\n\r\n" + _event(_delta({"role": "assistant", "content": ""})))
        if way == "silent":
            await asyncio.sleep(60)
        for token in () if way == "tokenless" else TOKENS:
            whole = _event(_delta({"content": token}))
            await response.write(whole[:9])  # Events may come in pieces.
            await response.write(whole[9:])
        if way == "failing":
            await response.write(_event({"error": {"message": "out of memory", "code": 500}}))
        if way == "broken":
            assert request.transport is not None
            request.transport.abort()
            return response
        if way == "endless":
            while True:
                await response.write(_event(_delta({"content": "more"})))
                await asyncio.sleep(0.01)
        if way != "usageless":
            usage = {"prompt_tokens": 100 * len(body["messages"]), "completion_tokens": len(TOKENS)}
            await response.write(_event({"choices": [], "usage": usage}))
        if way != "undone":
            await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _delta(delta: dict[str, str]) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}


def _event(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


@asynccontextmanager
async def opened(door: Door | None = None) -> AsyncIterator[Door]:
    """The door on a port of this machine."""
    door = door or Door()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", door.answer)
    server = TestServer(application)
    await server.start_server()
    door.url = str(server.make_url("")).rstrip("/")
    try:
        yield door
    finally:
        await server.close()
