# SPDX-License-Identifier: Apache-2.0
"""Conversations with a server that streams as vLLM does."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from tandem_operator.kubectl.asking import Asker
from tandem_operator.kubectl.views.bench import Turn, problems_of
from tandem_operator.kubectl.views.bench_plan import Plan
from tests.kubectl.streaming_door import TOKENS, Door, opened


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        yield door


def plan(conversations: int = 1, turns: int = 3) -> Plan:
    return Plan(seed=7, conversations=conversations, turns=turns, first_words=20, words=5, max_tokens=9)


async def held(door: Door, plan: Plan, *, patience: float = 20.0, key: str | None = None) -> tuple[Turn, ...]:
    return await Asker(door.url, "m", key=key, patience=patience).hold(plan)


async def test_each_turn_resends_all_that_was_said(door: Door) -> None:
    await held(door, plan())
    sent = [body["messages"] for body in door.bodies]
    assert [len(messages) for messages in sent] == [1, 3, 5]
    for before, now in pairwise(sent):
        assert now[: len(before)] == before
        assert now[len(before)] == {"role": "assistant", "content": "".join(TOKENS)}


async def test_a_turn_asks_for_a_stream_with_usage_from_the_model(door: Door) -> None:
    await held(door, plan(turns=1), key="secret")
    (body,) = door.bodies
    assert (body["model"], body["stream"], body["max_tokens"]) == ("m", True, 9)
    assert body["stream_options"] == {"include_usage": True}
    assert door.headers[0]["authorization"] == "Bearer secret"


async def test_without_a_key_none_is_sent(door: Door) -> None:
    await held(door, plan(turns=1))
    assert "authorization" not in door.headers[0]


async def test_conversations_are_held_at_once_each_with_a_session_of_its_own(door: Door) -> None:
    door.wait_for = 5
    turns = await held(door, plan(conversations=5, turns=2))
    assert door.at_once == 5
    sessions = [headers["x-session-id"] for headers in door.headers]
    assert len(sessions) == 10
    assert len(set(sessions)) == 5
    assert sorted((turn.conversation, turn.depth) for turn in turns) == [(c, d) for c in range(1, 6) for d in (1, 2)]


async def test_tokens_are_the_servers_count_and_times_go_forward(door: Door) -> None:
    turns = await held(door, plan())
    assert [(turn.prompt_tokens, turn.output_tokens) for turn in turns] == [(100, 4), (300, 4), (500, 4)]
    assert all(turn.error is None for turn in turns)
    assert all((turn.first_token or -1) > 0 and (turn.per_output_token or 0) >= 0 for turn in turns)


async def test_without_usage_only_the_time_to_the_first_token_is_known(door: Door) -> None:
    door.behave = lambda _: "usageless"
    (turn,) = await held(door, plan(turns=1))
    assert turn.error is None
    assert turn.first_token is not None
    assert (turn.prompt_tokens, turn.output_tokens, turn.per_output_token) == (None, None, None)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("503", "HTTP 503 Service Unavailable: no engine is there"),
        ("broken", "broken off: "),
        ("undone", "broken off: the stream ended without [DONE]"),
        ("failing", "error in the stream: out of memory"),
        ("tokenless", "an answer without a token"),
    ],
)
async def test_what_is_no_whole_answer_is_an_error_with_its_reason(door: Door, way: str, words: str) -> None:
    door.behave = lambda _: way
    (turn,) = await held(door, plan(turns=1))
    assert (turn.error or "").startswith(words)
    assert turn.first_token is None, "times of a broken answer are in no percentile"


@pytest.mark.parametrize("way", ["silent", "endless"])
async def test_a_turn_that_does_not_end_is_given_up(door: Door, way: str) -> None:
    door.behave = lambda _: way
    (turn,) = await held(door, plan(turns=1), patience=0.2)
    assert turn.error == "no end within 0.2 s"


async def test_a_conversation_ends_with_its_first_error_and_others_go_on(door: Door) -> None:
    first: list[str] = []

    def fail_in_the_second_turn_of_the_first(messages: list[dict[str, str]]) -> str:
        first.append(messages[0]["content"])
        return "503" if len(messages) == 3 and messages[0]["content"] == first[0] else "well"

    door.behave = fail_in_the_second_turn_of_the_first
    turns = await held(door, plan(conversations=2, turns=3))
    failed = [turn for turn in turns if turn.error]
    assert [turn.depth for turn in failed] == [2]
    asked = {c: sum(turn.conversation == c for turn in turns) for c in (1, 2)}
    assert asked[failed[0].conversation] == 2
    assert sorted(asked.values()) == [2, 3]


async def test_where_nobody_listens_all_conversations_fail_in_the_same_words() -> None:
    async with opened() as gone:
        pass
    (problem,) = problems_of(await held(gone, plan(conversations=3)))
    assert problem.turns == 3
    assert problem.words.startswith("no connection")


async def test_turns_are_told_as_they_end(door: Door) -> None:
    told: list[int] = []
    await Asker(door.url, "m", key=None, patience=20.0, told=lambda turn: told.append(turn.depth)).hold(plan())
    assert told == [1, 2, 3]
