# SPDX-License-Identifier: Apache-2.0
"""Answers of a given form through the front door, with OpenAI's own client.

`docs/clients.md` has a line for each of these. The model's weights are random: what it says means nothing, and has the
form that was asked for because vLLM lets it say nothing else.
"""

import json
from collections.abc import Iterator

import pytest
from openai import OpenAI
from openai.types.shared_params import ResponseFormatJSONSchema

from e2e.engine.model import MODEL_NAME
from e2e.installation import front_door
from e2e.suite.engines.conftest import Deployment
from e2e.suite.engines.test_a_openai_clients import ASKED

ENGINES = ("prefill-0", "prefill-1", "decode-0")
WHICH = {
    "type": "object",
    "properties": {"engine": {"type": "string", "enum": list(ENGINES)}, "now": {"type": "boolean"}},
    "required": ["engine", "now"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def client(deployment: Deployment) -> Iterator[OpenAI]:
    with (
        front_door(deployment.cluster, deployment.kubectl, deployment.name) as at,
        OpenAI(base_url=f"{at}/v1", api_key="none", max_retries=0, timeout=120.0) as client,
    ):
        yield client


def is_of_the_form(text: str) -> bool:
    said = json.loads(text)
    return said.keys() == {"engine", "now"} and said["engine"] in ENGINES and isinstance(said["now"], bool)


def test_an_answer_follows_a_json_schema(client: OpenAI) -> None:
    form: ResponseFormatJSONSchema = {"type": "json_schema", "json_schema": {"name": "which", "schema": WHICH}}
    answer = client.chat.completions.create(
        model=MODEL_NAME, messages=ASKED, max_tokens=64, temperature=0, response_format=form
    )
    assert answer.choices[0].finish_reason == "stop"
    assert is_of_the_form(answer.choices[0].message.content or "")


def test_an_answer_is_one_of_several(client: OpenAI) -> None:
    chosen = {"structured_outputs": {"choice": list(ENGINES)}}
    chat = client.chat.completions.create(
        model=MODEL_NAME, messages=ASKED, max_tokens=32, temperature=0, extra_body=chosen
    )
    assert chat.choices[0].message.content in ENGINES
    completion = client.completions.create(
        model=MODEL_NAME, prompt="Which engine?", max_tokens=32, temperature=0, extra_body=chosen
    )
    assert completion.choices[0].text in ENGINES
