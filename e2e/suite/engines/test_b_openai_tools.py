# SPDX-License-Identifier: Apache-2.0
"""Calls of functions through the front door, with OpenAI's own client, on engines that hold each call to its function's schema.

`docs/clients.md` has a line for each of these. The model's weights are random: that a call is whole, and what it has in it, is vLLM's
doing, from the first character of `<tool_call>` to the last.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI
from openai.types.chat import (
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionToolParam,
)
from openai.types.chat.chat_completion_message_function_tool_call import Function
from openai.types.shared_params import ResponseFormatJSONSchema

from e2e.engine.model import MODEL_NAME
from e2e.installation import front_door
from e2e.suite.engines.conftest import TOOLS, Deployment
from e2e.suite.engines.test_a_openai_clients import ASKED
from e2e.suite.engines.test_a_openai_structured import WHICH, is_of_the_form

pytestmark = pytest.mark.long

RESTART: ChatCompletionToolParam = {"type": "function", "function": {"name": "restart", "parameters": WHICH}}
MOVE: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "move",
        "parameters": {
            "type": "object",
            "properties": {"sessions": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["sessions"],
            "additionalProperties": False,
        },
    },
}
THIS_ONE: ChatCompletionNamedToolChoiceParam = {"type": "function", "function": {"name": "restart"}}
MOST = 512
"""Tokens of an answer, each of which is one character here."""


def likes(*characters: str) -> dict[str, int]:
    """A `logit_bias` for these, and against whitespace.

    The model finds all that isn't a word equally likely, whitespace between two words of JSON as well, and would never end. The token
    of an ASCII character is its number.
    """
    return {str(ord(each)): -100 for each in " \t\r\n"} | {str(ord(each)): 50 for each in characters}


@pytest.fixture(scope="module")
def url(deployment: Deployment) -> Iterator[str]:
    """Of the front door of engines with `TOOLS`, which they have already where `test_b_life.py` has run."""
    deployment.restart_with(*TOOLS)
    with front_door(deployment.cluster, deployment.kubectl, deployment.name) as at:
        yield f"{at}/v1"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120.0) as client:
        yield client


def called(message: ChatCompletionMessage) -> Function:
    (call,) = message.tool_calls or []
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    return call.function


def is_a_move(arguments: str) -> bool:
    said: dict[str, int] = json.loads(arguments)
    return said.keys() == {"sessions"} and 1 <= said["sessions"] <= 9


def test_the_function_that_is_named_is_called_with_arguments_of_its_schema(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL_NAME,
        messages=ASKED,
        max_tokens=MOST,
        temperature=0,
        logit_bias=likes(),
        tools=[MOVE, RESTART],
        tool_choice=THIS_ONE,
    )
    call = called(answer.choices[0].message)
    assert call.name == "restart"
    assert is_of_the_form(call.arguments)
    assert answer.choices[0].finish_reason == "stop"


def test_a_call_is_streamed_as_its_function_and_then_its_arguments(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL_NAME,
        messages=ASKED,
        max_tokens=MOST,
        temperature=0,
        logit_bias=likes(),
        tools=[MOVE, RESTART],
        tool_choice=THIS_ONE,
        stream=True,
    )
    calls = [call for chunk in stream for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    functions = [call.function for call in calls if call.function]
    assert {call.index for call in calls} == {0}
    assert [function.name for function in functions if function.name] == ["restart"]
    assert is_of_the_form("".join(function.arguments or "" for function in functions))


@pytest.mark.parametrize(("letter", "name"), [("m", "move"), ("r", "restart")])
def test_where_a_call_is_required_the_model_chooses_the_function_and_its_schema_follows(
    client: OpenAI, letter: str, name: str
) -> None:
    answer = client.chat.completions.create(
        model=MODEL_NAME,
        messages=ASKED,
        max_tokens=MOST,
        temperature=0,
        logit_bias=likes(letter),
        tools=[MOVE, RESTART],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    call = called(answer.choices[0].message)
    assert call.name == name
    assert {"move": is_a_move, "restart": is_of_the_form}[name](call.arguments)
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("calls", [True, False], ids=["it calls", "it answers"])
def test_where_a_call_is_its_own_choice_the_model_calls_or_answers_in_the_form_asked_for(
    client: OpenAI, *, calls: bool
) -> None:
    form: ResponseFormatJSONSchema = {"type": "json_schema", "json_schema": {"name": "which", "schema": WHICH}}
    answer = client.chat.completions.create(
        model=MODEL_NAME,
        messages=ASKED,
        max_tokens=MOST,
        temperature=0,
        logit_bias=likes("<" if calls else "{"),
        tools=[MOVE],
        parallel_tool_calls=False,
        response_format=form,
    )
    said = answer.choices[0].message
    if calls:
        assert is_a_move(called(said).arguments)
    else:
        assert not said.tool_calls
        assert is_of_the_form(said.content or "")


def test_a_conversation_goes_on_with_what_a_function_has_returned(client: OpenAI) -> None:
    history: list[ChatCompletionMessageParam] = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call-1", "type": "function", "function": {"name": "move", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call-1", "content": "Moved 3 sessions."},
    ]
    answer = client.chat.completions.create(
        model=MODEL_NAME, messages=[*ASKED, *history], max_tokens=8, temperature=0, tools=[MOVE], tool_choice="none"
    )
    assert answer.choices[0].message.content
    assert not answer.choices[0].message.tool_calls


def test_a_function_is_called_in_responses(client: OpenAI) -> None:
    answer = client.responses.create(
        model=MODEL_NAME,
        input="Which engine has to be restarted?",
        max_output_tokens=MOST,
        temperature=1,
        tools=[{"type": "function", "name": "restart", "parameters": WHICH, "strict": False}],
        tool_choice={"type": "function", "name": "restart"},
    )
    (call,) = [item for item in answer.output if item.type == "function_call"]
    assert call.name == "restart"
    assert is_of_the_form(call.arguments)


def test_a_function_is_called_in_anthropics_messages(url: str) -> None:
    asked: dict[str, Any] = {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": "Which engine has to be restarted?"}],
        "max_tokens": MOST,
        "temperature": 1,
        "tools": [{"name": "restart", "input_schema": WHICH}],
        "tool_choice": {"type": "tool", "name": "restart"},
    }
    said = httpx.post(f"{url}/messages", json=asked, timeout=60.0).raise_for_status().json()
    (call,) = [part for part in said["content"] if part["type"] == "tool_use"]
    assert call["name"] == "restart"
    assert is_of_the_form(json.dumps(call["input"]))
    assert said["stop_reason"] == "tool_use"
