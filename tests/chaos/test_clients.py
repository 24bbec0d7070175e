# SPDX-License-Identifier: Apache-2.0
"""What a client of a churn makes of each way in which a turn can end, at a server that answers from a list."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from e2e.chaos.topology.clients import Clients, End, Turn
from e2e.chaos.topology.talks import Talk
from e2e.soak.expected import Expected

TALK = Talk("talk", "Be brief.", ("Well?",), (2,))
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
END = b"data: [DONE]\n\n"
NEVER = b"never"


def said(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


@asynccontextmanager
async def serving(answers: Sequence[bytes], over: asyncio.Event) -> AsyncIterator[str]:
    """A server that says these, one to each connection, and closes it; after `NEVER` it says nothing. With the last it is over."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        content = left.pop(0)
        if not left:
            over.set()
        writer.write(content.removesuffix(NEVER))
        if content.endswith(NEVER):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def turn(*answers: bytes) -> Turn:
    """The first turn of a client to whose requests this is said, one after another, where " a b" is right."""

    async def asked() -> Turn:
        over = asyncio.Event()
        async with serving(answers, over) as url:
            clients = Clients(url, [TALK], {TALK.name: [Expected((), " a b", 4)]}, 1, slack=0.01)
            await clients.talk(0, over)
            await clients.close()
        (turn,) = clients.turns
        return turn

    return asyncio.run(asked())


def test_a_turn_that_was_refused_is_asked_again_and_counts_how_often() -> None:
    answered = turn(REFUSAL, HEAD + said(" a") + said(" b") + END)
    assert (answered.end, answered.retries) == (End.RIGHT, 1)


def test_an_answer_that_was_begun_is_broken_also_when_no_word_of_it_had_come() -> None:
    for begun in (HEAD, HEAD + said(" a"), HEAD + b'data: {"error": "gone"}\n\n', HEAD + b"data: {\n\n"):
        broken = turn(begun)
        assert (broken.end, broken.retries) == (End.BROKEN, 0), begun


def test_what_came_before_an_answer_broke_off_is_judged_too() -> None:
    assert turn(HEAD + said(" x")).end is End.WRONG


def test_another_text_is_wrong() -> None:
    assert turn(HEAD + said(" a c") + END).end is End.WRONG


def test_an_answer_without_end_hangs() -> None:
    assert turn(HEAD + said(" a") + NEVER).end is End.HUNG
