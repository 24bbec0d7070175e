# SPDX-License-Identifier: Apache-2.0
"""What OpenAI's own client gets through the front door: decode's vLLM answers, and prefill computes the long prompts.

`docs/clients.md` has a line for each of these.
"""

from collections.abc import AsyncIterator, Iterator

import httpx
import openai
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI
from openai.types.chat import ChatCompletionMessageParam

from e2e.engine.model import MODEL_NAME
from e2e.installation import front_door, pools_account
from e2e.suite.engines.conftest import Deployment

LONG = " ".join(f"pod decode-{number} took over session {7919 * number % 10007}" for number in range(60))
"""Some 400 tokens: more than decode computes by itself."""
ASKED: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "You watch over a fleet of engines."},
    {"role": "user", "content": f"{LONG}\nWhich engine had most to do?"},
]


@pytest.fixture(scope="module")
def url(deployment: Deployment) -> Iterator[str]:
    with front_door(deployment.cluster, deployment.kubectl, deployment.name) as at:
        yield f"{at}/v1"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120.0) as client:
        yield client


@pytest.fixture
async def async_client(url: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=120.0) as client:
        yield client


def test_the_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL_NAME]


def test_a_chat_is_answered_with_its_usage_and_prefill_computes_its_prompt(
    client: OpenAI, deployment: Deployment
) -> None:
    before = pools_account(deployment.kubectl, deployment.name)
    answer = client.chat.completions.create(model=MODEL_NAME, messages=ASKED, max_tokens=8, temperature=0)
    after = pools_account(deployment.kubectl, deployment.name).since(before)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    assert after.prefill.computed + after.prefill.cached == answer.usage.prompt_tokens


def test_a_streamed_chat_has_the_same_text_and_ends_with_its_usage(client: OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL_NAME, messages=ASKED, max_tokens=12, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model=MODEL_NAME,
            messages=ASKED,
            max_tokens=12,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage


async def test_an_asynchronous_client_is_answered_whole_and_streamed(async_client: AsyncOpenAI) -> None:
    whole = await async_client.chat.completions.create(model=MODEL_NAME, messages=ASKED, max_tokens=12, temperature=0)
    stream = await async_client.chat.completions.create(
        model=MODEL_NAME, messages=ASKED, max_tokens=12, temperature=0, stream=True
    )
    said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert said == whole.choices[0].message.content


def test_several_answers_to_one_prompt(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL_NAME, messages=ASKED, max_tokens=4, temperature=1, seed=1, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert all(choice.message.content for choice in answer.choices)


def test_several_prompts_at_once(client: OpenAI) -> None:
    prompts = [f"{LONG} {number}" for number in range(3)]
    together = client.completions.create(model=MODEL_NAME, prompt=prompts, max_tokens=6, temperature=0)
    apart = [
        client.completions.create(model=MODEL_NAME, prompt=prompt, max_tokens=6, temperature=0) for prompt in prompts
    ]
    assert [choice.text for choice in together.choices] == [answer.choices[0].text for answer in apart]


def test_log_probabilities(client: OpenAI) -> None:
    chat = client.chat.completions.create(
        model=MODEL_NAME, messages=ASKED, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    )
    assert chat.choices[0].logprobs is not None
    named = chat.choices[0].logprobs.content
    assert named is not None
    assert [len(token.top_logprobs) for token in named] == [3] * 4
    assert all(token.logprob <= 0 for token in named)


def test_the_prompts_own_log_probabilities_are_computed_by_decode(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL_NAME, prompt=LONG, max_tokens=2, temperature=0, logprobs=1, echo=True
    )
    assert answer.choices[0].text.startswith(LONG)
    assert answer.usage is not None
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert len(logprobs.tokens) == answer.usage.total_tokens


def test_tools_are_refused_with_the_remedy_while_the_engine_has_no_parser_for_them(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match=r'tool_choice=function "restart" requires --tool-call-parser'):
        client.chat.completions.create(
            model=MODEL_NAME,
            messages=ASKED,
            max_tokens=8,
            tools=[{"type": "function", "function": {"name": "restart", "parameters": {"type": "object"}}}],
            tool_choice={"type": "function", "function": {"name": "restart"}},
        )


def test_responses_whole_and_streamed(client: OpenAI) -> None:
    whole = client.responses.create(model=MODEL_NAME, input=LONG, max_output_tokens=8, temperature=0)
    events = list(
        client.responses.create(model=MODEL_NAME, input=LONG, max_output_tokens=8, temperature=0, stream=True)
    )
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == whole.output_text != ""


def test_a_stop_string_ends_the_answer(client: OpenAI) -> None:
    free = client.completions.create(model=MODEL_NAME, prompt=LONG, max_tokens=12, temperature=0).choices[0].text
    word = free.split()[3]
    answer = client.completions.create(model=MODEL_NAME, prompt=LONG, max_tokens=12, temperature=0, stop=[word])
    assert answer.choices[0].finish_reason == "stop"
    assert free.startswith(answer.choices[0].text)
    assert word not in answer.choices[0].text


def test_a_stream_that_the_client_leaves_is_ended_and_others_go_on(client: OpenAI) -> None:
    for _ in range(3):
        stream = client.chat.completions.create(
            model=MODEL_NAME, messages=ASKED, max_tokens=2_000, temperature=0, stream=True
        )
        next(iter(stream))
        stream.close()
    answer = client.chat.completions.create(model=MODEL_NAME, messages=ASKED, max_tokens=4, temperature=0)
    assert answer.choices[0].message.content


def test_errors_are_the_clients_own(client: OpenAI) -> None:
    with pytest.raises(NotFoundError):
        client.chat.completions.create(model="another", messages=ASKED, max_tokens=1)
    with pytest.raises(BadRequestError, match=r"max_tokens|max_completion_tokens|context length"):
        client.chat.completions.create(model=MODEL_NAME, messages=ASKED, max_tokens=1_000_000)
    with pytest.raises(BadRequestError):
        client.chat.completions.create(model=MODEL_NAME, messages=ASKED, max_tokens=1, temperature=-1)
    with pytest.raises(openai.APIStatusError):
        client.chat.completions.create(model=MODEL_NAME, messages=[], max_tokens=1)


def test_anthropics_messages_are_passed_on(url: str) -> None:
    asked = {"model": MODEL_NAME, "messages": [{"role": "user", "content": LONG}], "max_tokens": 4}
    answer = httpx.post(f"{url}/messages", json=asked, timeout=60.0)
    assert (answer.status_code, answer.json()["type"]) == (200, "message")
