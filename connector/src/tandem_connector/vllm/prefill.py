# SPDX-License-Identifier: Apache-2.0
"""Sends prefill requests to other engines over HTTP.

A thread with an event loop of its own, which sleeps while nothing is sent: connections are kept for the next call, any
number of calls wait at the same time, and one that is cancelled has its connection closed, which makes vLLM abort the
prefill. The answer is judged by `asking.wire`.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp

from tandem_connector.asking.types import Answer, CallFailed, CallId, Failure
from tandem_connector.asking.wire import PrefillCall, read_answer
from tandem_connector.exchange.types import Seconds

_log = logging.getLogger(__name__)

MAX_ANSWER: Final = 1 << 20
"""Longest answer that is read, in bytes; a good one has some hundred."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How calls are made."""

    connect: float = 2.0
    """Seconds for a connection to be made."""
    keep_alive: float = 3.0
    """Seconds for which an unused connection is kept. Less than vLLM's own 5 (`VLLM_HTTP_TIMEOUT_KEEP_ALIVE`), so that it
    is not used at the moment at which the other side closes it."""
    api_key: str | None = None
    """What the engines were started with as `--api-key`."""


DEFAULTS: Final = HttpSettings()


class PrefillCaller:
    """Makes calls. Its methods may be used from any thread, and return at once, except `stop`."""

    def __init__(self, ended: Callable[[CallId, Answer | CallFailed], None], settings: HttpSettings = DEFAULTS) -> None:
        """Start the thread.

        Args:
            ended: told once of each call's end, on the caller's thread; not of one that was cancelled before.
            settings: how calls are made.
        """
        self._ended = ended
        self._settings = settings
        self._tasks: dict[CallId, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._finish = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="tandem-prefill", daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        self._ready.wait()

    def start(self, call: PrefillCall) -> None:
        """Send the request. After `stop` nothing is sent, and nothing reported."""
        self._later(self._start, call)

    def cancel(self, call: CallId) -> None:
        """Close the call's connection, whatever its state; nothing, if it has ended."""
        self._later(self._cancel, call)

    def stop(self, patience: Seconds = Seconds(5.0)) -> bool:  # noqa: B008 - a number
        """Cancel all calls and end the thread; False if it hasn't ended in time."""
        self._later(self._finish.set)
        self._thread.join(patience)
        return not self._thread.is_alive()

    # -- on the thread ----------------------------------------------------------------------------------------------

    def _later(self, what: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:  # the loop is closed
            _log.debug("prefill_caller_stopped")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=self._settings.keep_alive, use_dns_cache=False)
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers=self._headers(),
        ) as self._session:
            self._ready.set()
            await self._finish.wait()
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity"}
        if self._settings.api_key is not None:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        return headers

    def _start(self, call: PrefillCall) -> None:
        if not self._finish.is_set():
            self._tasks[call.call] = self._loop.create_task(self._make(call))

    def _cancel(self, call: CallId) -> None:
        task = self._tasks.pop(call, None)
        if task is not None:
            task.cancel()

    async def _make(self, call: PrefillCall) -> None:
        try:
            outcome = await self._outcome(call)
        except Exception as error:  # whatever aiohttp raises besides what it documents: the call must end
            _log.exception("prefill_call_broke call=%d engine=%s", call.call, call.engine)
            outcome = CallFailed(Failure.GARBAGE, repr(error))
        if self._tasks.pop(call.call, None) is not None:
            self._ended(call.call, outcome)

    async def _outcome(self, call: PrefillCall) -> Answer | CallFailed:
        timeout = aiohttp.ClientTimeout(total=call.timeout, sock_connect=self._settings.connect)
        try:
            async with self._session.post(
                call.url, data=call.body, headers=call.headers, timeout=timeout, allow_redirects=False
            ) as response:
                content = await _read(response)
                if content is None:
                    return CallFailed(Failure.GARBAGE, f"an answer of more than {MAX_ANSWER} bytes")
                return read_answer(response.status, content, call.engine)
        except TimeoutError as error:
            return CallFailed(Failure.TIMEOUT, type(error).__name__)
        except aiohttp.ClientConnectorError as error:
            return CallFailed(Failure.REFUSED, str(error))
        except (aiohttp.ClientResponseError, aiohttp.InvalidURL, ValueError) as error:
            return CallFailed(Failure.GARBAGE, repr(error))
        except (aiohttp.ClientError, OSError) as error:
            return CallFailed(Failure.CLOSED, repr(error))


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; None if it is too long."""
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > MAX_ANSWER:
            response.close()
            return None
    return bytes(content)
