# SPDX-License-Identifier: Apache-2.0
"""One prefill engine behind a front that can break, two decode engines, and a plain one: for all tests of this folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.engines import Engine, EngineSpec, running
from e2e.exchange.front import Front
from e2e.exchange.prompts import OUTPUT, Answer, Prompt, ask
from e2e.suite.exchange.conftest import EVERY_PREFILL, Pair
from tandem_connector.contract.types import Role

SOON, LATER = 0.5, 4.0
"""Seconds for which each of the decode engines leaves prefill alone after a failure."""
SPARE = {**EVERY_PREFILL, "silent_after": 5.0}
"""Four engines share two cores: none of them may get to answer for some seconds."""


@dataclass(frozen=True)
class Compared(Pair):
    """A pair, the engines beside it, and what the plain one said."""

    front: Front
    """Where decode finds prefill's HTTP server."""
    _plain_texts: dict[tuple[tuple[int, ...], int], str] = field(default_factory=dict)

    @property
    def second(self) -> Engine:
        """The other decode engine."""
        return self.engines["second"]

    @property
    def plain(self) -> Engine:
        return self.engines["plain"]

    def ids(self, seed: int, tokens: int) -> list[int]:
        return Prompt(seed, tokens).ids(self.model)

    def expected(self, ids: Sequence[int], output: int = OUTPUT) -> str:
        """What the plain engine answers, asked once."""
        key = tuple(ids), output
        if key not in self._plain_texts:
            self._plain_texts[key] = ask(self.plain, list(ids), output=output).text
        return self._plain_texts[key]

    def same(self, ids: Sequence[int], *, output: int = OUTPUT, by: Engine | None = None, **more: Any) -> Answer:
        """Decode's answer to the prompt, which is the plain engine's."""
        expected = self.expected(ids, output)
        answer = ask(by or self.decode, list(ids), output=output, **more)
        assert answer.text == expected
        return answer

    def same_texts(self, path: str = "/v1/completions", **body: Any) -> list[str]:
        """All texts that decode gives, which are the plain engine's."""
        texts = [
            [
                choice["text"] if "text" in choice else choice["message"]["content"]
                for choice in engine.post(path, {"model": MODEL_NAME, **body}, timeout=120.0)["choices"]
            ]
            for engine in (self.plain, self.decode)
        ]
        assert texts[0] == texts[1]
        return texts[1]


@pytest.fixture(scope="package")
def compared(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    """All ready and connected. Engines that are compared have a core each; those of two pairs share one."""
    with running(build_environment(), model, tmp_path_factory.mktemp("compared")) as engines:
        engines.start(
            prefill=EngineSpec(Role.PREFILL, core="0", extra=SPARE, listed_start="1"),
            decode=EngineSpec(Role.DECODE, core="1", extra={**SPARE, "rest": SOON}),
            second=EngineSpec(Role.DECODE, core="1", extra={**SPARE, "rest": LATER}),
            plain=EngineSpec(None, core="0"),
        )
        with Front(engines["prefill"].port) as front:
            engines["prefill"].http_port = front.port
            engines.tell()
            engines.wait_for_connections()
            yield Compared(engines, model, front)


@pytest.fixture(autouse=True)
def nothing_left(compared: Compared) -> Iterator[None]:
    """After each test no engine holds anything, and all are healthy; their caches are empty for the next one."""
    yield
    nothing_is_held(compared.prefill, compared.decode, compared.second)
