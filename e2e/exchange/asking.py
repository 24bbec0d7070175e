# SPDX-License-Identifier: Apache-2.0
"""Answers that are on their way while a test does something to the engines."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from e2e.engine.model import MODEL_NAME
from e2e.exchange.engine import Engine
from e2e.exchange.prompts import Answer, ask

T = TypeVar("T")
WITHIN = 180.0
"""Seconds in which whatever was begun must have ended."""


class Meanwhile(Generic[T]):
    """Something that is done on a thread of its own."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._done: T | None = None
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._done = self._do()
        except BaseException as error:  # raised where the result is wanted
            self._failed = error

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def result(self, within: float = WITHIN) -> T:
        """What came of it.

        Raises:
            TimeoutError: it hasn't ended in time.
            BaseException: what it raised.
        """
        self._thread.join(within)
        if self._thread.is_alive():
            raise TimeoutError(f"not done after {within:.0f} s")
        if self._failed is not None:
            raise self._failed
        return self._done  # type: ignore[return-value] # it has run


def asking(engine: Engine, ids: list[int], **more: Any) -> Meanwhile[Answer]:
    """Ask as `ask` does."""
    return Meanwhile(lambda: ask(engine, ids, timeout=WITHIN, **more))


def ask_at_once(engine: Engine, prompts: Sequence[list[int]], **more: Any) -> list[Answer]:
    """The answers to all of these, asked at one time, in their order."""
    return [each.result() for each in [asking(engine, ids, **more) for ids in prompts]]


def hang_up(engine: Engine, ids: list[int], after: float) -> None:
    """Ask for a long answer as a stream, and go away so many seconds later, whatever has come."""
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=60)
    body = {"model": MODEL_NAME, "prompt": ids, "max_tokens": 200, "temperature": 0.0, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    time.sleep(after)
    connection.sock.close()
    connection.close()
