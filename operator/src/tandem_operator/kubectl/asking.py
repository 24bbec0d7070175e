# SPDX-License-Identifier: Apache-2.0
"""Holds a benchmark's conversations with a front door, as agents do: each turn resends all that was said."""

import asyncio
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp

from tandem_operator.kubectl.answering import Answering, BadAnswer
from tandem_operator.kubectl.views.bench import Turn
from tandem_operator.kubectl.views.bench_plan import Plan, said, session_of

_WORDS_OF_ERROR = 200
"""Characters of a refusal that are told."""


class Unanswered(Exception):  # noqa: N818 -- says what became of the turn
    """There is no whole answer; the text says why, in the same words for all turns that fail alike."""


class Asker:
    """Asks one front door.

    Args:
        url: of the front door, without `/v1`.
        model: its name in the API.
        key: sent as the bearer's token; None: none is sent.
        patience: seconds for a turn, from the request to the end of its answer.
        told: called with each turn when it has ended.
    """

    def __init__(
        self, url: str, model: str, *, key: str | None, patience: float, told: Callable[[Turn], None] = lambda _: None
    ) -> None:
        self._url = f"{url.rstrip('/')}/v1/chat/completions"
        self._model = model
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._patience = patience
        self._told = told

    async def hold(self, plan: Plan) -> tuple[Turn, ...]:
        """All conversations at once; the turns that were asked, in the order in which they ended."""
        turns: list[Turn] = []
        # Neither a limit of connections nor one of time but for a whole turn.
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                headers=self._headers,
            ) as session,
            asyncio.TaskGroup() as group,
        ):
            for conversation in range(1, plan.conversations + 1):
                group.create_task(self._converse(session, plan, conversation, turns))
        return tuple(turns)

    async def _converse(self, session: aiohttp.ClientSession, plan: Plan, conversation: int, turns: list[Turn]) -> None:
        messages: list[dict[str, str]] = []
        headers = {"x-session-id": session_of(plan, conversation)}
        for depth in range(1, plan.turns + 1):
            messages.append({"role": "user", "content": said(plan, conversation, depth)})
            body = {"messages": messages, "max_tokens": plan.max_tokens}
            try:
                turn, text = await self._turn(session, body, headers, conversation, depth)
            except Unanswered as problem:
                turn, text = Turn(conversation=conversation, depth=depth, error=str(problem)), ""
            turns.append(turn)
            self._told(turn)
            if turn.error is not None:
                return
            messages.append({"role": "assistant", "content": text})

    async def _turn(
        self,
        session: aiohttp.ClientSession,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        conversation: int,
        depth: int,
    ) -> tuple[Turn, str]:
        began = time.monotonic()
        answer = await self._answer(session, body, headers)
        if answer.first is None or answer.last is None:
            raise Unanswered("an answer without a token")
        later = (answer.output_tokens or 0) - 1
        turn = Turn(
            conversation=conversation,
            depth=depth,
            prompt_tokens=answer.prompt_tokens,
            output_tokens=answer.output_tokens,
            first_token=answer.first - began,
            per_output_token=(answer.last - answer.first) / later if later > 0 else None,
        )
        return turn, answer.text

    async def _answer(
        self, session: aiohttp.ClientSession, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Answering:
        whole = {
            **body,
            "model": self._model,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        answer = Answering()
        try:
            async with (
                asyncio.timeout(self._patience),
                session.post(self._url, json=whole, headers=headers) as response,
            ):
                if response.status != HTTPStatus.OK:
                    words = " ".join((await response.text(errors="replace")).split())[:_WORDS_OF_ERROR]
                    raise Unanswered(f"HTTP {response.status} {response.reason}: {words}")
                async for piece in response.content.iter_any():
                    answer.take(piece, time.monotonic())
        except TimeoutError as error:
            raise Unanswered(f"no end within {self._patience:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise Unanswered(f"no connection: {error.os_error.strerror or error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unanswered(f"broken off: {error or type(error).__name__}") from error
        except BadAnswer as error:
            raise Unanswered(str(error)) from error
        if not answer.is_whole:
            raise Unanswered("broken off: the stream ended without [DONE]")
        return answer
