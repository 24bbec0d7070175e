# SPDX-License-Identifier: Apache-2.0
"""A model with latent attention (MLA), whose KV is one vector per token and layer, and experts: DeepSeek-V3's form.

vLLM turns prefix caching of such models off on CPUs without AMX, so these engines have it turned on by a plugin, the plain
one too (`e2e.engine.plugin`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.conversation import Turn, held
from e2e.engine.environment import build_environment
from e2e.engine.latent_model import LATENT, ROPE, LatentShape, make_latent_model
from e2e.engine.model import MODEL_NAME
from e2e.engine.unlocked import Unlocked, unlocked
from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.engines import Engine, EngineSpec, running
from e2e.suite.exchange.conversing import Held, converse, excess, moved
from tandem_connector.contract.types import Role

BLOCK = 16
"""Tokens per KV block: all that vLLM's CPU kernel for such models can have."""
ARGUMENTS = ("--block-size", str(BLOCK), "--attention-backend", "CPU_MLA")
EVERY_PREFILL = {"disaggregate_above_tokens": 2 * BLOCK}


@dataclass(frozen=True)
class Talk:
    """What was said over both, and by a plain engine."""

    expected: list[Turn]
    held: Held
    prefill: Engine
    decode: Engine


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    folder = tmp_path_factory.mktemp("latent")
    make_latent_model(folder / "model")
    on = unlocked(folder / "plugin", Unlocked.MLA_PREFIX_CACHING)
    with running(build_environment(), folder / "model", folder) as engines:
        engines.start(
            plain=EngineSpec(None, core="0", arguments=ARGUMENTS, environment=on),
            **{
                name: EngineSpec(role, core=core, arguments=ARGUMENTS, environment=on, extra=EVERY_PREFILL)
                for name, role, core in (("prefill", Role.PREFILL, "0"), ("decode", Role.DECODE, "1"))
            },
        )
        engines.wait_for_connections()
        prefill, decode = engines["prefill"], engines["decode"]
        expected = list(held(engines["plain"].url, MODEL_NAME, session="reference"))
        yield Talk(expected, converse(prefill, decode, block=BLOCK), prefill, decode)


def test_each_answer_is_a_plain_engines(talk: Talk) -> None:
    assert [turn.text for turn in talk.held.turns] == [turn.text for turn in talk.expected]


def test_each_engine_computes_what_it_must_and_gets_the_rest(talk: Talk) -> None:
    assert excess(talk.held, BLOCK) == []


def test_as_many_bytes_were_written_as_received_in_both_directions(talk: Talk) -> None:
    for writer, receiver, purpose in (
        (talk.prefill, talk.decode, "forward"),
        (talk.decode, talk.prefill, "reverse_push"),
    ):
        written, received = moved(writer, receiver, purpose)
        assert written == received > 0


def test_a_layer_is_one_region_and_a_block_has_one_vector_per_token(talk: Talk) -> None:
    layers, floats = LatentShape().layers, 4
    for engine in (talk.prefill, talk.decode):
        found = re.search(r"kv_registered .* regions=(\d+) block_bytes=(\d+)", engine.log.read_text())
        assert found is not None
        assert [int(number) for number in found.groups()] == [layers, layers * BLOCK * (LATENT + ROPE) * floats]


def test_afterwards_no_block_is_held(talk: Talk) -> None:
    nothing_is_held(talk.prefill, talk.decode)
