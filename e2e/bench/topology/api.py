# SPDX-License-Identifier: Apache-2.0
"""The API server as the benchmark uses it: plain requests, and watches of which each event has the time of its arrival."""

import asyncio
import json
import ssl
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import aiohttp

Json = dict[str, Any]

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused; the text is its own."""


class Event(NamedTuple):
    """What a watch tells."""

    at: float
    """Seconds of the monotonic clock, at its arrival."""
    type: str
    object: Json


class Api:
    """One connection pool, with the rights of a kubeconfig that holds a client certificate.

    Args:
        kubeconfig: as the local cluster writes it.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server: str = cluster["server"]
        self._tls = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        with TemporaryDirectory(prefix="bench-topology-") as folder:
            pair = Path(folder, "client.pem")
            pair.touch(mode=0o600)
            pair.write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
            self._tls.load_cert_chain(pair)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        self._session = aiohttp.ClientSession(self._server, connector=connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        **query: str,
    ) -> Json:
        """The answer.

        Raises:
            ApiError: it is not a success.
        """
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        async with self._session.request(method, path, params=query, data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise ApiError(f"{method} {path}: HTTP {answer.status}: {text[:500]}")
            found: Json = json.loads(text)
            return found

    async def list(self, path: str, selector: str = "") -> tuple[list[Json], str]:
        """The objects with these labels, and the version that they are of."""
        page = await self.request("GET", path, labelSelector=selector)
        return page["items"], page["metadata"]["resourceVersion"]

    async def watch(self, path: str, version: str, selector: str = "") -> AsyncIterator[Event]:
        """What happens after `version`, for as long as the API server goes on with one watch (half an hour at least).

        Raises:
            ApiError: it ended.
        """
        query = {"watch": "1", "resourceVersion": version, "labelSelector": selector}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
        async with self._session.get(path, params=query, timeout=timeout) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                at = time.monotonic()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    told = json.loads(line)
                    if told["type"] == "ERROR":
                        raise ApiError(f"the watch of {path} failed: {told['object']}")
                    yield Event(at, told["type"], told["object"])
        raise ApiError(f"the watch of {path} ended")

    async def wait_gone(self, path: str, selector: str = "") -> None:
        """Return when there are none of these objects."""
        for wait in repeat(0.5):
            if not (await self.list(path, selector))[0]:
                return
            await asyncio.sleep(wait)
