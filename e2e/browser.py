# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a window, for pages that Tandem serves, spoken with by its DevTools protocol.

https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from e2e.cluster.local.packages import install

_PACKAGE: Final = "chromium-headless-shell"
_PATIENCE: Final = 60.0
Json = dict[str, Any]


def chromium() -> str | None:
    """The browser, installed if it isn't there; None where it isn't and can't be."""
    found = shutil.which(_PACKAGE) or shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install(_PACKAGE)
        found = shutil.which(_PACKAGE)
    return found


class Tab:
    """One page that is open."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        """What the browser and the page's scripts wrote to the console, as of the last answer."""

    async def ask(self, method: str, **parameters: Any) -> Json:
        """The result of one command of the protocol."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json()
            match message:
                case {"method": "Log.entryAdded", "params": {"entry": entry}}:
                    self.complaints.append(str(entry["text"]))
                case {"method": "Runtime.exceptionThrown" | "Runtime.consoleAPICalled", "params": said}:
                    self.complaints.append(str(said))
                case {"id": self._number, "error": error}:
                    raise RuntimeError(f"{method}: {error}")
                case {"id": self._number, "result": result}:
                    found: Json = result
                    return found

    async def value(self, expression: str) -> Any:
        """What an expression of JavaScript is in the page, or comes to be if it is a promise."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def text(self, selector: str) -> str:
        """The text of an element, of a drawing too."""
        return str(await self.value(f"document.querySelector({selector!r}).textContent"))

    async def until(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true in the page."""
        async with asyncio.timeout(_PATIENCE):
            while not await self.value(expression):  # noqa: ASYNC110 -- what is waited for is in another process
                await asyncio.sleep(0.05)

    async def press(self, key: str) -> None:
        """Press a key as on a keyboard: `Tab`, `Enter`."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        for kind in ("keyDown", "keyUp"):
            await self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )


@asynccontextmanager
async def opened(browser: str, url: str, profile: Path) -> AsyncIterator[Tab]:
    """A browser that shows the page while the block runs."""
    process = await asyncio.create_subprocess_exec(
        browser,
        # Its sandbox doesn't start as root, and the only pages are our own.
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *(f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        # Debian's program is a shell's script that waits for the browser, which outlives it.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                (target,) = [each for each in await answer.json() if each["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Log", "Runtime", "Page"):
                    await tab.ask(f"{domain}.enable")
                await tab.ask("Page.navigate", url=url)
                yield tab
    finally:
        await _end_all(process)


async def _end_all(process: asyncio.subprocess.Process) -> None:
    """End the process and all that it has started, at once: nothing of the profile is needed any more."""
    os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _port(file: Path) -> str:
    """Which the browser chose, and writes down when it listens."""
    while not file.exists() or len(lines := file.read_text().splitlines()) < 2:  # noqa: ASYNC110, ASYNC240 -- as above
        await asyncio.sleep(0.05)
    return lines[0]
