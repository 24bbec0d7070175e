# SPDX-License-Identifier: Apache-2.0
"""HTTP to single engines, as any client of theirs: completions, and what they measure of themselves.

Nothing that an engine answers is trusted: it is read up to a bound, and what isn't understood is no answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from tandem_operator.plan.conversation import Answer, Failed, Fault, read_answer
from tandem_operator.plan.target import Place
from tandem_operator.plan.verification import Fabric

ANSWER_WITHIN: Final = 120.0
"""Seconds. Conversations wait with all other requests for their turn."""
METRICS_WITHIN: Final = 10.0
CONNECT_WITHIN: Final = 5.0
_MOST_BYTES: Final = 8 * 1024 * 1024
_SHOWN: Final = 150
"""Characters of an error that are told."""
RANK_HEADER: Final = "X-data-parallel-rank"
"""vLLM's (`entrypoints/openai`): the data-parallel rank that is to answer."""


def engine_session() -> aiohttp.ClientSession:
    """A session that remembers nothing of one engine when it speaks with another, and takes no proxy from the environment."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, connector=aiohttp.TCPConnector(force_close=True)
    )


@dataclass(frozen=True)
class Said:
    """What an engine's metrics say."""

    fabric: Fabric | None
    refused_peers: int


class EngineClient:
    """One pool of connections, for engines of all resources."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def complete(self, place: Place, body: Mapping[str, Any], rank: int | None = None) -> Answer | Failed:
        """The answer to a completion, by this data-parallel rank."""
        headers = {} if rank is None else {RANK_HEADER: str(rank)}
        try:
            status, content = await self._fetch(
                "POST", place, "/v1/completions", ANSWER_WITHIN, json=body, headers=headers
            )
        except TimeoutError:
            return Failed(Fault.TIMEOUT, f"no answer within {ANSWER_WITHIN:.0f} s")
        except (aiohttp.ClientError, OSError) as error:
            return Failed(Fault.UNREACHABLE, f"{error or type(error).__name__}"[:_SHOWN])
        words = f"HTTP {status}: {content[:_SHOWN].decode(errors='replace')}"
        if status in {401, 403}:
            return Failed(Fault.KEY, words)
        if 400 <= status < 500 and status not in {408, 429}:
            return Failed(Fault.REFUSED, words)
        answer = read_answer(_json(content)) if status == 200 else None
        return answer or Failed(Fault.UNREACHABLE, f"an answer that can't be read: {words}")

    async def said(self, place: Place) -> Said | None:
        """What an engine says of itself; None if it doesn't."""
        try:
            status, content = await self._fetch("GET", place, "/metrics", METRICS_WITHIN)
        except (aiohttp.ClientError, OSError):  # TimeoutError is an OSError
            return None
        return read_metrics(content.decode(errors="replace")) if status == 200 else None

    async def _fetch(self, method: str, place: Place, path: str, within: float, **more: Any) -> tuple[int, bytes]:
        host = f"[{place.host}]" if ":" in place.host else place.host
        timeout = aiohttp.ClientTimeout(total=within, sock_connect=CONNECT_WITHIN)
        url = f"http://{host}:{place.port}{path}"
        # A redirect would send the operator elsewhere.
        async with self._session.request(method, url, timeout=timeout, allow_redirects=False, **more) as response:
            content = b""
            async for chunk in response.content.iter_chunked(65_536):
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise aiohttp.ClientPayloadError(f"an answer of more than {_MOST_BYTES} bytes")
            return response.status, content


def read_metrics(text: str) -> Said | None:
    """What Prometheus' text form of an engine's metrics says; None if it can't be read."""
    fabric, refused = None, 0
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "tandem_transport" and sample.value:
                    fabric = Fabric.model_validate(sample.labels)
                elif sample.name == "tandem_peers_refused":
                    refused += int(sample.value)
    except (ValueError, ValidationError):
        return None
    return Said(fabric, refused)


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None
