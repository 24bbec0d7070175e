# SPDX-License-Identifier: Apache-2.0
"""One prefill and one decode engine for all tests of a module, and what a plain engine answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.conversation import Turn, held
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME, cached_model
from e2e.exchange.asking import ask_at_once
from e2e.exchange.engines import Engine, Engines, EngineSpec, running
from e2e.exchange.prompts import Prompt, ask
from tandem_connector.contract.types import Role

EVERY_PREFILL = {"disaggregate_above_tokens": 64, "estimate_age": 0}
"""Two blocks: whatever is worth a prefill is asked for. And whatever decode holds is fetched, however fast prefill is."""
PROMPTS = tuple(
    Prompt(seed, tokens) for seed, tokens in ((1, 1_500), (2, 800), (3, 2_500), (4, 700), (5, 900), (6, 3_000))
)

CROWD = tuple(Prompt(100 + number, 600 + 40 * number) for number in range(8))
"""Of a pool of 90 blocks four fit, until their answers have grown."""
CROWD_OUTPUT = 240
"""So long that all of them are being answered at one time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need engines and have time for them to start."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(900))


@dataclass(frozen=True)
class Reference:
    """What a plain engine answers."""

    conversation: list[Turn]
    texts: dict[Prompt, str]
    crowd: dict[Prompt, str]
    """Answers of `CROWD_OUTPUT` tokens."""

    def is_right(self, prompt: Prompt, text: str) -> bool:
        """Whether this is an answer to one of `CROWD`, or the beginning of one."""
        return text != "" and self.crowd[prompt].startswith(text)


def crowd_of(engine: Engine, model: Path) -> list[str]:
    """The answers to `CROWD`, asked at one time."""
    answers = ask_at_once(engine, [prompt.ids(model) for prompt in CROWD], output=CROWD_OUTPUT)
    return [answer.text for answer in answers]


@dataclass(frozen=True)
class Pair:
    """A prefill and a decode engine that know each other."""

    engines: Engines
    model: Path

    @property
    def prefill(self) -> Engine:
        """The one that runs now."""
        return self.engines["prefill"]

    @property
    def decode(self) -> Engine:
        """Clients speak to this one only."""
        return self.engines["decode"]


@pytest.fixture(scope="session")
def model() -> Path:
    """The small model's folder."""
    return cached_model()


@pytest.fixture(scope="session")
def reference(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Before anything else takes the cores."""
    with running(build_environment(), model, tmp_path_factory.mktemp("reference")) as engines:
        plain = engines.start(plain=EngineSpec(None, core="0"))["plain"]
        return Reference(
            list(held(plain.url, MODEL_NAME, session="reference")),
            {prompt: ask(plain, prompt.ids(model)).text for prompt in PROMPTS},
            dict(zip(CROWD, crowd_of(plain, model), strict=True)),
        )


@pytest.fixture(scope="module")
def pair(reference: Reference, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both ready and connected, each on a core of its own."""
    with running(build_environment(), model, tmp_path_factory.mktemp("pair")) as engines:
        engines.start(
            prefill=EngineSpec(Role.PREFILL, core="0", extra=EVERY_PREFILL),
            decode=EngineSpec(Role.DECODE, core="1", extra=EVERY_PREFILL),
        )
        engines.wait_for_connections()
        yield Pair(engines, model)
