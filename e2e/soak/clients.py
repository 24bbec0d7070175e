# SPDX-License-Identifier: Apache-2.0
"""Clients that hold conversations: streamed or not, several of one prompt, hanging up, turning to another engine."""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx

from e2e.engine.model import MODEL_NAME
from e2e.exchange.engine import Engine
from e2e.soak.expected import Answers, Expected
from e2e.soak.fleet import Fleet, Standing
from e2e.soak.scripts import Script
from e2e.soak.tally import End, Tally
from tandem_connector.contract.types import Role

HUNG_AFTER = 180.0
"""Seconds. An answer may wait for three prefill engines, each with some seconds of patience and 0.01 s for each token that
waits there, and for an engine that is frozen; all that was at most a third of this."""


class BrokenError(Exception):
    """An answer that is none. The text says what it was."""


@dataclass(frozen=True)
class Manner:
    """How a request is made."""

    streamed: bool
    choices: int
    """Answers to one request; all the same."""
    hangs_up_after: float | None
    """Seconds."""
    salt: str | None

    @classmethod
    def drawn(cls, chosen: random.Random, salt: str | None) -> "Manner":
        """One in six hangs up, one in ten wants two answers."""
        return cls(
            streamed=chosen.random() < 0.5,
            choices=2 if chosen.random() < 0.1 else 1,
            hangs_up_after=chosen.uniform(0.0, 4.0) if chosen.random() < 1 / 6 else None,
            salt=salt,
        )

    def body(self, ids: Sequence[int], output: int) -> dict[str, Any]:
        """Of the request to `/v1/completions`."""
        # Greedy sampling has one answer only; the best of one token is the same, and may be asked for twice.
        greedy = {"temperature": 0.0} if self.choices == 1 else {"temperature": 1.0, "top_k": 1, "n": self.choices}
        salted = {} if self.salt is None else {"cache_salt": self.salt}
        return {
            "model": MODEL_NAME,
            "prompt": list(ids),
            "max_tokens": output,
            "stream": self.streamed,
            **greedy,
            **salted,
        }


class Clients:
    """All that speak to the decode engines of a fleet."""

    def __init__(
        self,
        fleet: Fleet,
        scripts: Sequence[Script],
        answers: Answers,
        tally: Tally,
        seed: int,
        *,
        slack: float,
    ) -> None:
        self._fleet = fleet
        self._scripts = scripts
        self._answers = answers
        self._tally = tally
        self._seed = seed
        self._hung_after = HUNG_AFTER * slack
        self._numbers = count(1)
        # Longer than this and the longest freeze together, an engine leaves a connection open that nobody uses.
        self._http = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None, keepalive_expiry=2.0))
        self.under_way = 0

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def talk(self, client: int, until: asyncio.Event) -> None:
        """One conversation after another, until the event; while an engine starts only the first client's."""
        chosen = random.Random(f"client {self._seed} {client}")
        while not until.is_set():
            if client and self._fleet.standing(Standing.DOWN):
                # Imports take minutes beside engines that use all cores.
                await asyncio.sleep(1.0)
            else:
                await self._conversation(chosen, until)

    async def _conversation(self, chosen: random.Random, until: asyncio.Event) -> None:
        script = chosen.choice(self._scripts)
        salt = chosen.choice((None, "one", "two", f"own-{chosen.getrandbits(40)}", f"own-{chosen.getrandbits(40)}"))
        home = chosen.getrandbits(16)
        for together in script.rounds:
            if until.is_set() or chosen.random() < 0.08:
                return
            if chosen.random() < 0.15:
                home = chosen.getrandbits(16)
            copies = 3 if chosen.random() < 0.08 else 1
            asked = [
                self._turn(script, turn, Manner.drawn(chosen, salt), home) for turn in together for _ in range(copies)
            ]
            await asyncio.gather(*asked)

    async def _turn(self, script: Script, turn: int, manner: Manner, home: int) -> None:
        """Ask until the answer came or the client has hung up: an engine that was ended is not asked again."""
        while True:
            names = self._fleet.standing(Standing.UP, Standing.FROZEN, role=Role.DECODE)
            if not names:
                await asyncio.sleep(1.0)
            elif await self._asked(self._fleet[names[home % len(names)]], script, turn, manner) is not End.CUT:
                return
            else:
                home += 1

    async def _asked(self, engine: Engine, script: Script, turn: int, manner: Manner) -> End:
        answers = self._answers[script.name]
        ids = script.turns[turn].ids(self._fleet.model, {number: each.ids for number, each in enumerate(answers)})
        name = f"soak-{next(self._numbers)}"
        texts = [""] * manner.choices
        began = time.monotonic()
        self.under_way += 1
        try:
            end, why = await self._ended(engine, name, manner.body(ids, script.turns[turn].output), manner, texts)
        finally:
            self.under_way -= 1
        end = _judged(end, texts, answers[turn])
        if end is End.WRONG:
            why = f"{texts} instead of {answers[turn]}"
        what = f"{name} {script.name}/{turn} at {engine.id}, {len(ids)} tokens, {manner} {why}"
        self._tally.ended(end, time.monotonic() - began, what)
        return end

    async def _ended(
        self, engine: Engine, name: str, body: dict[str, Any], manner: Manner, texts: list[str]
    ) -> tuple[End, str]:
        """How a request ended, as far as that doesn't depend on what was answered, and what was in the way."""
        patience = self._hung_after if manner.hangs_up_after is None else manner.hangs_up_after
        try:
            async with asyncio.timeout(patience):
                await self._read(engine, name, body, texts)
        except TimeoutError:
            return (End.HUNG if manner.hangs_up_after is None else End.ABORTED), f"after {patience:.1f} s"
        except (httpx.HTTPError, BrokenError) as error:
            # Whoever ends an engine notes it before.
            return (End.CUT if engine.id in self._fleet.ended else End.BROKEN), repr(error)
        return End.RIGHT, ""

    async def _read(self, engine: Engine, name: str, body: dict[str, Any], texts: list[str]) -> None:
        """Ask, and add to the texts what comes."""
        url, headers = f"{engine.url}/v1/completions", {"X-Request-Id": name}
        async with self._http.stream("POST", url, json=body, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                raise BrokenError(f"{response.status_code} {(await response.aread())[:300]!r}")
            if not body["stream"]:
                add_answer(await response.aread(), texts)
                return
            async for line in response.aiter_lines():
                content = line.removeprefix("data: ")
                if content == "[DONE]":
                    return
                if content:
                    add_answer(content, texts)
        raise BrokenError("a stream without end")


def add_answer(content: str | bytes, texts: list[str]) -> None:
    """Add what came of each choice to its text.

    Raises:
        BrokenError: the engine gave the request up, or answered with something else.
    """
    said = json.loads(content)
    if "choices" not in said:
        raise BrokenError(repr(said))
    for choice in said["choices"]:
        texts[choice["index"]] += choice["text"]
    # What an engine that is told to end answers to requests that it hasn't finished within `--shutdown-timeout`.
    if any(choice["finish_reason"] == "abort" for choice in said["choices"]):
        raise BrokenError("the engine gave the request up")


def _judged(end: End, texts: Sequence[str], expected: Expected) -> End:
    """How a request ended, now that is known what came until then."""
    is_right = expected.allows if end is End.RIGHT else expected.begins_with
    return end if all(is_right(text) for text in texts) else End.WRONG
