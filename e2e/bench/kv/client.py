# SPDX-License-Identifier: Apache-2.0
"""Asks an engine for a completion, and keeps the time of its first token."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from e2e.engine.model import MODEL_NAME

_TIMEOUT = 300.0


@dataclass(frozen=True)
class Reply:
    """What an engine answered."""

    tokens: list[int]
    began: float
    """When it was asked, on the machine's monotonic clock."""
    seconds_to_first_token: float | None
    """None when it wasn't streamed."""
    seconds: float
    prompt: int
    cached: int
    """Prompt tokens that the engine did not compute, by its own word."""
    params: dict[str, Any] | None
    """`kv_transfer_params`, which only answers have that aren't streamed."""


class RefusedError(Exception):
    """The engine did not answer as asked; the text has what it said instead."""


def complete(
    url: str,
    request: str,
    prompt: list[int],
    *,
    output: int,
    stream: bool = True,
    params: dict[str, Any] | None = None,
) -> Reply:
    """Complete token ids greedily.

    Args:
        url: the engine's.
        request: what it is to be called, as X-Request-Id.
        prompt: token ids.
        output: tokens to answer with.
        stream: whether tokens are to come one by one.
        params: `kv_transfer_params`.

    Raises:
        RefusedError: no answer, or one of another length.
    """
    body: dict[str, Any] = {
        "model": MODEL_NAME,
        "prompt": prompt,
        "max_tokens": output,
        "temperature": 0.0,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    if params is not None:
        body["kv_transfer_params"] = params
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    connection = HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT)
    try:
        began = time.monotonic()
        headers = {"Content-Type": "application/json", "X-Request-Id": request}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise RefusedError(f"{request}: status {response.status}: {response.read(500)!r}")
        reply = _streamed(response, began) if stream else _whole(response, began)
    finally:
        connection.close()
    if len(reply.tokens) != output:
        raise RefusedError(f"{request}: {len(reply.tokens)} tokens instead of {output}")
    return reply


@contextmanager
def at_once(requests: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that make so many requests at one time.

    When something goes wrong, or the run is told to end, their answers are not waited for: they end with the engines.
    """
    pool = ThreadPoolExecutor(requests)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _whole(response: HTTPResponse, began: float) -> Reply:
    answer = json.loads(response.read())
    return Reply(
        tokens=answer["choices"][0]["token_ids"],
        began=began,
        seconds_to_first_token=None,
        seconds=time.monotonic() - began,
        params=answer.get("kv_transfer_params"),
        **_usage(answer["usage"]),
    )


def _streamed(response: HTTPResponse, began: float) -> Reply:
    tokens: list[int] = []
    first: float | None = None
    usage: dict[str, Any] = {}
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line.removeprefix(b"data: "))
        for choice in chunk.get("choices", ()):
            if choice.get("token_ids"):
                first = first or time.monotonic()
                tokens += choice["token_ids"]
        usage = chunk.get("usage") or usage
    return Reply(
        tokens=tokens,
        began=began,
        seconds_to_first_token=None if first is None else first - began,
        seconds=time.monotonic() - began,
        params=None,
        **_usage(usage),
    )


def _usage(usage: dict[str, Any]) -> dict[str, int]:
    details = usage.get("prompt_tokens_details") or {}
    return {"prompt": usage.get("prompt_tokens", 0), "cached": details.get("cached_tokens") or 0}
