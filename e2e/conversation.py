# SPDX-License-Identifier: Apache-2.0
"""A scripted conversation of several turns over the OpenAI API, streamed, as an agent has it: each turn resends all."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

_LOG = "\n".join(
    f"{number:02d} pod decode-{number % 4} took over session {7919 * number % 10007} from prefill-{number % 3}"
    for number in range(1, 13)
)

SCRIPT: tuple[str, ...] = (
    f"Here is what the cluster did last night:\n{_LOG}\nWhich engine had most to do?",
    "Name the sessions that moved twice, and say when each of them came back to the engine that knew it.",
    "Now write a short report for the people who come in this morning.",
)
"""What the user says; about 700, 100 and 70 tokens with the demo's model."""

SYSTEM = "You watch over a fleet of prefill and decode engines and answer in plain words."


@dataclass(frozen=True)
class Turn:
    """One answered turn."""

    text: str
    prompt_tokens: int
    output_tokens: int
    seconds_to_first_token: float


class Conversation:
    """Speaks to one OpenAI-compatible server and remembers what was said."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        session: str,
        system: str = SYSTEM,
        max_tokens: int = 96,
        timeout: float = 300.0,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`session` goes along as `x-session-id`, by which a gateway keeps a conversation on one engine; `headers` do too."""
        self._client = OpenAI(
            base_url=f"{base_url}/v1",
            api_key="none",
            timeout=timeout,
            max_retries=0,
            default_headers={"x-session-id": session, **headers},
        )
        self._model = model
        self._max_tokens = max_tokens
        self._messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": system}]

    def say(self, text: str, heard: Callable[[str], None] | None = None) -> Turn:
        """Send the conversation so far and `text`, read the streamed answer to its end.

        Args:
            text: what the user says.
            heard: called with the answer so far whenever something is added.

        Raises:
            openai.APIError: the server refused or broke off.
        """
        self._messages.append({"role": "user", "content": text})
        began = time.monotonic()
        first: float | None = None
        pieces: list[str] = []
        prompt_tokens = output_tokens = 0
        stream = self._client.chat.completions.create(
            model=self._model,
            messages=self._messages,
            max_tokens=self._max_tokens,
            temperature=0.0,
            stream=True,
            stream_options={"include_usage": True},
        )
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                first = first or time.monotonic()
                pieces.append(chunk.choices[0].delta.content)
                if heard:
                    heard("".join(pieces))
            if chunk.usage:
                prompt_tokens, output_tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
        answer = "".join(pieces)
        self._messages.append({"role": "assistant", "content": answer})
        return Turn(answer, prompt_tokens, output_tokens, (first or time.monotonic()) - began)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def held(
    base_url: str,
    model: str,
    *,
    session: str,
    script: Sequence[str] = SCRIPT,
    system: str = SYSTEM,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Turn]:
    """The turns of a whole conversation, each answered before the next is asked."""
    conversation = Conversation(base_url, model, session=session, system=system, headers=headers)
    try:
        for text in script:
            yield conversation.say(text)
    finally:
        conversation.close()
