# SPDX-License-Identifier: Apache-2.0
"""A place before an engine's HTTP server that behaves as it is told to: it passes requests on, or does what broken servers do."""

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeAlias

_PIECE: Final = 65_536
_DRIP: Final = 0.2
"""Seconds between two pieces of an answer that is slow."""


@dataclass(frozen=True)
class Call:
    """One request, and the connection on which it is to be answered."""

    request: bytes
    """Head and body."""
    client: asyncio.StreamWriter
    gone: asyncio.Future[None]
    """Done when the client has closed the connection."""
    behind: int
    """The port of the engine behind."""

    async def passed_on(self) -> bytes:
        """What the engine behind answers. Its connection is closed if the client goes away before."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.behind)
        try:
            # A connection of its own for each request, whose end is the end of the answer.
            writer.write(self.request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = asyncio.ensure_future(reader.read())
            either: set[asyncio.Future[Any]] = {answer, self.gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                answer.cancel()
                return b""
            return answer.result()
        finally:
            writer.close()

    def say(self, content: bytes) -> None:
        """Send this to the client."""
        self.client.write(content)

    async def client_goes(self) -> None:
        """Until the client closes the connection."""
        await asyncio.wait({self.gone})


Behaviour: TypeAlias = Callable[[Call], Awaitable[None]]
"""What is done with a request. Afterwards the connection is closed."""


async def passes_on(call: Call) -> None:
    """As if the engine were spoken to directly."""
    call.say(await call.passed_on())


async def hesitates(call: Call) -> None:
    """Takes a second for what should take none."""
    await asyncio.sleep(1.0)
    await passes_on(call)


async def hangs(call: Call) -> None:
    """Reads the request and never answers."""
    await call.client_goes()


async def hangs_after_the_prefill(call: Call) -> None:
    """Lets the engine compute, and keeps its answer."""
    await call.passed_on()
    await call.client_goes()


async def breaks_off(call: Call) -> None:
    """Ends in the middle of an answer, without having asked the engine."""
    call.say(_head({"Content-Length": "1000"}) + b'{"choices":[')


async def breaks_off_after_the_prefill(call: Call) -> None:
    """Lets the engine compute, and gives half of its answer."""
    answer = await call.passed_on()
    call.say(answer[: len(answer) // 2])


async def resets(call: Call) -> None:
    """Breaks the connection as a host does that knows nothing of it."""
    connection: socket.socket = call.client.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    call.client.transport.abort()


async def speaks_another_protocol(call: Call) -> None:
    """Isn't an HTTP server."""
    call.say(b"SSH-2.0-OpenSSH_9.6\r\n")


async def drips_headers(call: Call) -> None:
    """Begins an answer whose headers come so slowly that they never end."""
    call.say(b"HTTP/1.1 200 OK\r\n")
    await _drip(call, b"X-Header: value\r\n")


async def drips_a_body(call: Call) -> None:
    """Begins an answer that comes slowly and never ends."""
    call.say(_head({"Content-Type": "application/json"}))
    await _drip(call, b" ")


async def has_headers_without_end(call: Call) -> None:
    """Sends headers as fast as it can, and nothing else."""
    call.say(b"HTTP/1.1 200 OK\r\n")
    await _flood(call, b"X-Header: " + b"v" * 1_000 + b"\r\n")


async def has_a_body_without_end(call: Call) -> None:
    """Sends a body as fast as it can, for ever."""
    call.say(_head({"Content-Type": "application/json"}))
    await _flood(call, b" " * _PIECE)


def answers(content: object, status: str = "200 OK") -> Behaviour:
    """Answers each request with this, as JSON, or as it is when it is bytes."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def behaviour(call: Call) -> None:
        call.say(_head({"Content-Type": "application/json", "Content-Length": str(len(body))}, status) + body)

    return behaviour


class Front:
    """Listens on a port of its own. What happens to requests is chosen by `doing` and `refusing`."""

    def __init__(self, behind: int) -> None:
        """Pass on what comes to the engine's port `behind`."""
        self.behind = behind
        self.requests = 0
        """How many have come."""
        self._behaviour: Behaviour = passes_on
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        """Where it listens."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def doing(self, behaviour: Behaviour) -> Iterator[None]:
        """Treat requests so that come in the meantime."""
        self._behaviour = behaviour
        try:
            yield
        finally:
            self._behaviour = passes_on

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Don't listen in the meantime."""
        self._run(self._close())
        try:
            yield
        finally:
            self._run(self._listen())

    # -- on the thread ----------------------------------------------------------------------------------------------

    def _run(self, what: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10.0)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await _request(reader)
            self.requests += 1
            gone = asyncio.ensure_future(_end(reader))
            await self._behaviour(Call(request, writer, gone, self.behind))
            await writer.drain()
        writer.close()
        self._tasks.discard(task)


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return head + await reader.readexactly(int(lengths[0].partition(b":")[2]) if lengths else 0)


async def _end(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()


def _head(headers: Mapping[str, str] = MappingProxyType({}), status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items()), "Connection: close"]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


async def _drip(call: Call, piece: bytes) -> None:
    while not call.gone.done():
        call.say(piece)
        await asyncio.wait({call.gone}, timeout=_DRIP)


async def _flood(call: Call, piece: bytes) -> None:
    while not call.gone.done():
        call.say(piece)
        await call.client.drain()
