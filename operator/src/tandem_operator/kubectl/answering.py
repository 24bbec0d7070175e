# SPDX-License-Identifier: Apache-2.0
"""One streamed answer of an OpenAI-compatible server, as it comes in: server-sent events, read without I/O or a clock.

The form is that of vLLM 0.32: an object after each `data:`, tokens in `choices[0].delta`, `usage` in the last one, an `error`
in place of choices when it fails on the way, and `[DONE]` at the end. Without that end the answer is not whole.
"""

import json
from typing import Any, Final

_END: Final = "[DONE]"
_TOKENS: Final = ("content", "reasoning", "reasoning_content", "tool_calls")
"""Fields of a delta that carry what the model made."""


class BadAnswer(Exception):  # noqa: N818 -- says what it is
    """The server says that it failed, or says what can't be understood."""


class Answering:
    """Takes the pieces of an answer."""

    def __init__(self) -> None:
        self.first: float | None = None
        """When the first token came."""
        self.last: float | None = None
        """When the last token came."""
        self.is_whole = False
        """Whether the server said that this was all."""
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self._text: list[str] = []
        self._rest = b""

    @property
    def text(self) -> str:
        """What the next turn repeats; what the model thought before it is none of it."""
        return "".join(self._text)

    def take(self, piece: bytes, at: float) -> None:
        """Go on with what came in at that time; events may be cut anywhere.

        Raises:
            BadAnswer: see there.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b":")
            # Other fields, and comments that keep a connection open, say nothing.
            if field == b"data":
                self._event(value.decode(errors="replace").strip(), at)

    def _event(self, data: str, at: float) -> None:
        if data == _END:
            self.is_whole = True
            return
        try:
            event = json.loads(data)
            if error := event.get("error"):
                words = error.get("message") if isinstance(error, dict) else error
                raise BadAnswer(f"error in the stream: {words}")
            for choice in event.get("choices") or ():
                self._delta(choice.get("delta") or {}, at)
            if usage := event.get("usage"):
                self.prompt_tokens, self.output_tokens = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
        except (ValueError, TypeError, AttributeError, KeyError) as problem:
            raise BadAnswer(f"an event that is none of a chat completion: {data[:80]}") from problem

    def _delta(self, delta: dict[str, Any], at: float) -> None:
        if any(delta.get(field) for field in _TOKENS):
            self.first = at if self.first is None else self.first
            self.last = at
            self._text.append(delta.get("content") or "")
