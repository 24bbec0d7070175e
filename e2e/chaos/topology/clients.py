# SPDX-License-Identifier: Apache-2.0
"""Clients that hold conversations through the front door, as patient agents do.

What was refused, so that no answer was begun, is asked again.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Any

import httpx

from e2e.chaos.topology.expected import Answers
from e2e.chaos.topology.talks import Talk
from e2e.engine.model import MODEL_NAME

HUNG_AFTER = 180.0
"""Seconds for one answer, on a machine that does nothing else."""
RETRIES = 60
"""How often a request is made, a second apart, before its client gives up."""
THINKS = (0.5, 6.0)
"""Seconds between an answer and the next turn, so that engines go in between, too."""
_PREFIX = "churn-"


class End(StrEnum):
    """How one turn ended."""

    RIGHT = "right"
    WRONG = "wrong"
    """Another text than the plain engine's."""
    BROKEN = "broken"
    """An answer was begun and not ended, or nobody would take the request."""
    HUNG = "hung"
    """No end within the bound."""


@dataclass(frozen=True)
class Turn:
    """One turn as its client saw it. Times are of the monotonic clock."""

    request: str
    """Its X-Request-Id, of the attempt that was answered."""
    session: str
    number: int
    """In its conversation, from 0 on."""
    began: float
    ended: float
    end: End
    retries: int
    """Attempts that were refused before an answer was begun."""
    why: str = ""
    fresh: bool = True
    """No other session has said the same before, so no engine has it from there. (vllm-router passes no `cache_salt` on.)"""


class BrokenError(Exception):
    """An answer that is none. The text says what it was."""


@dataclass
class _Heard:
    text: str = ""
    began: bool = False
    """A status came that promises an answer, if no word of it yet."""


class Clients:
    """All that speak to one front door."""

    def __init__(self, url: str, talks: Sequence[Talk], answers: Answers, seed: int, *, slack: float) -> None:
        """None speaks yet.

        Args:
            url: of the front door.
            talks: the conversations that there are.
            answers: what is right.
            seed: of all that they choose.
            slack: how many times as long as on an idle machine an answer may take.
        """
        self._url = url
        self._talks = talks
        self._answers = answers
        self._seed = seed
        self._hung_after = HUNG_AFTER * slack
        self._numbers = count(1)
        self._sessions = count()
        self._http = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
        self.turns: list[Turn] = []
        self.under_way = 0
        self.starting = False
        """Whether an engine starts, which takes minutes beside engines that use all cores; then only some clients speak."""

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def talk(self, client: int, until: asyncio.Event) -> None:
        """One conversation after another, until the event."""
        chosen = random.Random(f"client {self._seed} {client}")
        while not until.is_set():
            if self.starting and client >= 2:
                await asyncio.sleep(1.0)
            else:
                await self._conversation(chosen, until)

    async def _conversation(self, chosen: random.Random, until: asyncio.Event) -> None:
        place, session = next(self._sessions), f"{chosen.getrandbits(64):x}"
        talk, fresh = self._talks[place % len(self._talks)], place < len(self._talks)
        for number in range(len(talk.said)):
            if until.is_set():
                return
            turn = replace(await self._turn(talk, session, number), fresh=fresh)
            self.turns.append(turn)
            if turn.end is not End.RIGHT:
                return
            await asyncio.sleep(chosen.uniform(*THINKS))

    async def _turn(self, talk: Talk, session: str, number: int) -> Turn:
        answers = self._answers[talk.name]
        body = {
            "model": MODEL_NAME,
            "messages": talk.messages(number, [answer.text for answer in answers]),
            "max_tokens": talk.output[number],
            "temperature": 0.0,
            "stream": True,
        }
        began, retries = time.monotonic(), 0
        while True:
            request, heard = f"{_PREFIX}{next(self._numbers)}", _Heard()
            end, why = await self._asked(body, {"X-Request-Id": request, "x-session-id": session}, heard)
            if end is not End.BROKEN or heard.began or retries == RETRIES:
                break
            retries += 1
            await asyncio.sleep(1.0)
        expected = answers[number]
        fits = expected.allows if end is End.RIGHT else expected.begins_with
        if not fits(heard.text):
            end, why = End.WRONG, f"{heard.text!r} instead of {expected.text!r}"
        what = f"{request} {talk.name}/{number} {why}"
        return Turn(request, session, number, began, time.monotonic(), end, retries, what if why else "")

    async def _asked(self, body: dict[str, Any], headers: dict[str, str], heard: _Heard) -> tuple[End, str]:
        self.under_way += 1
        try:
            async with asyncio.timeout(self._hung_after):
                await self._read(body, headers, heard)
        except TimeoutError:
            return End.HUNG, f"no end in {self._hung_after:.0f} s after {heard.text!r}"
        except (httpx.HTTPError, BrokenError, ValueError) as error:
            return End.BROKEN, f"{error!r} after {heard.text!r}"
        finally:
            self.under_way -= 1
        return End.RIGHT, ""

    async def _read(self, body: dict[str, Any], headers: dict[str, str], heard: _Heard) -> None:
        url = f"{self._url}/v1/chat/completions"
        async with self._http.stream("POST", url, json=body, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                raise BrokenError(f"{response.status_code} {(await response.aread())[:300]!r}")
            heard.began = True
            async for line in response.aiter_lines():
                content = line.removeprefix("data: ")
                if content == "[DONE]":
                    return
                if content:
                    heard.text += _said(json.loads(content))
        raise BrokenError("a stream without end")


def _said(chunk: dict[str, Any]) -> str:
    if "choices" not in chunk:
        raise BrokenError(repr(chunk))
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
