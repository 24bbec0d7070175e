# SPDX-License-Identifier: Apache-2.0
"""Engines of two tensor-parallel ranks: each rank writes to its own, and a block has come when both have their part."""

from pathlib import Path

import pytest

from e2e.cluster.progress import wait_until
from e2e.engine.environment import build_environment
from e2e.engine.model import Shape, make_model
from e2e.exchange.engines import BLOCK_SIZE, EngineSpec, running
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Prompt, ask
from e2e.suite.exchange.conftest import EVERY_PREFILL
from tandem_connector.contract.types import Role

EVEN = Shape(hidden=256, layers=4, heads=4, kv_heads=2, head=64, intermediate=512)
TWO_RANKS = ("--tensor-parallel-size", "2")
SHARED_CORES = {**EVERY_PREFILL, "silent_after": 15.0}
"""Four ranks on two cores spin for a second after each step: an engine may not get to answer for some seconds."""
FIRST, MORE = Prompt(11, 600), Prompt(12, 150)


@pytest.fixture(scope="module")
def even_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose heads can be split over two ranks."""
    folder = tmp_path_factory.mktemp("models") / "even"
    make_model(folder, shape=EVEN)
    return folder


def test_two_ranks_exchange_as_one_does(even_model: Path, tmp_path: Path) -> None:
    first, more = FIRST.ids(even_model), MORE.ids(even_model)
    with running(build_environment(), even_model, tmp_path / "plain") as engines:
        plain = engines.start(plain=EngineSpec(None, core="0|1", arguments=TWO_RANKS))["plain"]
        expected = [ask(plain, first).text, ask(plain, first + more).text]
    with running(build_environment(), even_model, tmp_path / "pair") as engines:
        engines.start(
            **{
                name: EngineSpec(role, core="0|1", arguments=TWO_RANKS, extra=SHARED_CORES, tensor_parallel=2)
                for name, role in (("prefill", Role.PREFILL), ("decode", Role.DECODE))
            }
        )
        engines.wait_for_connections()
        prefill, decode = engines["prefill"], engines["decode"]
        answers = [ask(decode, first), ask(decode, first + more)]
        assert [answer.text for answer in answers] == expected
        assert answers[0].account["received"] == {"forward": (FIRST.tokens - 1) // BLOCK_SIZE * BLOCK_SIZE}
        # With four ranks on two cores decode may answer before prefill has.
        wait_until("prefill to end both turns", lambda: len(prefill.turns()) == 2, 30.0)
        assert prefill.turns()[-1]["computed"] < MORE.tokens + BLOCK_SIZE
        written = value_of(prefill.metrics(), "tandem_bytes_written_total", purpose="forward")
        assert written == value_of(decode.metrics(), "tandem_bytes_received_total", purpose="forward") > 0
        assert decode.post("/reset_prefix_cache")["success"]
        assert prefill.post("/reset_prefix_cache")["success"]
