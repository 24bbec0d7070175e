# SPDX-License-Identifier: Apache-2.0
"""Clients that ask a front door without pause, each with its own session, and how their requests ended."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

import httpx

from e2e.engine.model import MODEL_NAME

HUNG_AFTER = 120.0
"""Seconds. On two cores an answer takes a few; a frozen engine is thawed long before."""
_PAUSE = 0.2
"""Seconds after a refusal."""
_LONG = " ".join(f"decode-{number} has {7919 * number % 10007} blocks;" for number in range(8))
"""More than decode computes by itself."""


class End(StrEnum):
    """How a request ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """No answer was begun: an error's status, or no connection. A client can ask again."""
    BROKEN = "broken"
    """An answer was begun and not ended."""
    HUNG = "hung"
    """Neither came in time."""


@dataclass(frozen=True)
class Ended:
    """One request."""

    session: str
    streamed: bool
    end: End
    seconds: float
    why: str = ""


@dataclass
class Tally:
    """What happened to all requests."""

    ended: list[Ended] = field(default_factory=list)

    def count(self, end: End) -> int:
        """How many ended so."""
        return sum(1 for each in self.ended if each.end is end)

    @property
    def slowest(self) -> float:
        """Seconds that the longest answer took."""
        return max((each.seconds for each in self.ended if each.end is End.ANSWERED), default=0.0)

    def figures(self, fault: str, retried: int) -> list[str]:
        """Lines for people and scripts; `retried` is what the front door says of it."""
        counts = {**{end.value: self.count(end) for end in End}, "retried": retried}
        lines = [f"figure front-door.{fault}.{name} {count} requests" for name, count in counts.items()]
        return [*lines, f"figure front-door.{fault}.slowest {self.slowest:.1f} s"]

    def __str__(self) -> str:
        reasons = Counter(f"{each.end}, {'streamed' if each.streamed else 'whole'}: {each.why}" for each in self.ended)
        return "\n".join(f"{count} {reason}" for reason, count in reasons.most_common())


class Load:
    """While it is entered, every session asks, one request after another, streamed and whole by turns."""

    def __init__(
        self,
        url: str,
        sessions: Sequence[str],
        *,
        tokens: int = 12,
        pause: float = 0.0,
        hung_after: float = HUNG_AFTER,
    ) -> None:
        """Ask the front door at `url` for answers of so many tokens, each session after a pause of so many seconds."""
        self._url = url
        self._sessions = sessions
        self._tokens = tokens
        self._pause = pause
        self._hung_after = hung_after
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)
        self.tally = Tally()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Return when what was asked has ended."""
        self._over.set()
        self._thread.join(self._hung_after + 10.0)

    def answers_more(self, count: int) -> Callable[[], bool]:
        """Whether so many more were answered than when this was asked for."""
        wanted = self.tally.count(End.ANSWERED) + count
        return lambda: self.tally.count(End.ANSWERED) >= wanted

    async def _all(self) -> None:
        # A connection for each request: each is led to any replica, and none is lost because a replica that goes closed it.
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=self._url, timeout=None, limits=limits) as http:
            await asyncio.gather(*(self._session(http, *each) for each in enumerate(self._sessions)))

    async def _session(self, http: httpx.AsyncClient, number: int, session: str) -> None:
        # Sessions begin with different numbers, so that at any time some stream and some don't.
        while not self._over.is_set():
            number += 1
            ended = await self._asked(http, session, number)
            self.tally.ended.append(ended)
            await asyncio.sleep(self._pause if ended.end is End.ANSWERED else max(self._pause, _PAUSE))

    async def _asked(self, http: httpx.AsyncClient, session: str, number: int) -> Ended:
        streamed = number % 2 == 0
        body = {
            "model": MODEL_NAME,
            "messages": [{"role": "user", "content": f"{session}, {number}: {_LONG} Who has most?"}],
            "max_tokens": self._tokens,
            "temperature": 0.0,
            "stream": streamed,
        }
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._hung_after):
                end, why = await _ended(http, session, body)
        except TimeoutError:
            end, why = End.HUNG, ""
        return Ended(session, streamed, end, time.monotonic() - began, why)


async def _ended(http: httpx.AsyncClient, session: str, body: dict[str, Any]) -> tuple[End, str]:
    began = False
    try:
        async with http.stream(
            "POST", "/v1/chat/completions", json=body, headers={"x-session-id": session}
        ) as response:
            if response.status_code != httpx.codes.OK:
                said = (await response.aread())[:200].decode(errors="replace")
                return End.REFUSED, f"{response.status_code} {said}"
            began = True
            content = (await response.aread()).decode()
    except httpx.HTTPError as error:
        return (End.BROKEN if began else End.REFUSED), repr(error)
    try:
        whole = _is_whole(content, streamed=body["stream"])
    except (ValueError, LookupError):
        whole = False
    return (End.ANSWERED, "") if whole else (End.BROKEN, content[-200:])


def _is_whole(content: str, *, streamed: bool) -> bool:
    """Whether an answer has its end. vLLM tells of an error in mid-stream as an event without choices, and then says `[DONE]`.

    Raises:
        ValueError, LookupError: it isn't an answer at all.
    """
    if not streamed:
        return bool(json.loads(content)["choices"][0]["finish_reason"])
    events = [line.removeprefix("data: ") for line in content.splitlines() if line.startswith("data: ")]
    said = [json.loads(event) for event in events if event != "[DONE]"]
    finished = any(choice["finish_reason"] for each in said for choice in each.get("choices", ()))
    return events[-1:] == ["[DONE]"] and finished and all("choices" in each for each in said)
