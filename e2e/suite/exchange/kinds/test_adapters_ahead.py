# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters, on engines that schedule the next step while one runs, as engines on GPUs do by default.

An adapter's name and place are in the names of blocks, and a request's prefill is asked for under its adapter's name.

vLLM turns scheduling ahead off on CPUs, whatever is asked for, so prefill and decode have it turned on by a plugin
(`e2e.engine.plugin`). The scheduler, the engine's loop with two steps in flight, and the executor are vLLM's own. The plain
engine takes one step after the other.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.conversation import held
from e2e.engine.adapter import RANK, make_adapter
from e2e.engine.environment import build_environment
from e2e.engine.model import Shape, make_model
from e2e.engine.unlocked import Unlocked, unlocked
from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.engines import BLOCK_SIZE, Engine, EngineSpec, running
from e2e.exchange.prompts import Prompt, ask
from e2e.suite.exchange.conftest import EVERY_PREFILL
from e2e.suite.exchange.conversing import converse, excess, moved, prefilled
from e2e.suite.exchange.test_b_faults import Asking, a_client
from tandem_connector.contract.types import Role
from tandem_connector.vllm.journal import read_journal

SHAPE = Shape(hidden=256, layers=4, heads=4, kv_heads=2, head=64, intermediate=512)
POET, CLERK, MOVED = "poet", "clerk", "moved"
"""Adapters: one that all engines have, one that prefill lacks, and one that lies elsewhere at prefill."""


@dataclass(frozen=True)
class Adapted:
    """Engines with adapters."""

    plain: Engine
    prefill: Engine
    decode: Engine
    model: Path


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapted]:
    folder = tmp_path_factory.mktemp("adapters")
    make_model(folder / "model", shape=SHAPE)
    for seed, name in enumerate((POET, CLERK, MOVED), 1):
        make_adapter(folder / name, SHAPE, seed)
    (folder / "elsewhere").symlink_to(folder / MOVED)

    def arguments(**adapters: str) -> tuple[str, ...]:
        listed = [f"{name}={folder / path}" for name, path in adapters.items()]
        return ("--enable-lora", "--max-lora-rank", str(RANK), "--max-loras", "3", "--lora-modules", *listed)

    everywhere = arguments(poet=POET, clerk=CLERK, moved=MOVED)
    at_prefill = arguments(poet=POET, moved="elsewhere")
    ahead = unlocked(Unlocked.ASYNC_SCHEDULING)
    with running(build_environment(), folder / "model", folder) as engines:
        engines.start(
            plain=EngineSpec(None, core="0", arguments=everywhere),
            prefill=EngineSpec(Role.PREFILL, core="0", arguments=at_prefill, extra=EVERY_PREFILL, environment=ahead),
            decode=EngineSpec(Role.DECODE, core="1", arguments=everywhere, extra=EVERY_PREFILL, environment=ahead),
        )
        engines.wait_for_connections()
        yield Adapted(engines["plain"], engines["prefill"], engines["decode"], folder / "model")


def most_in_flight(engine: Engine) -> int:
    """How many steps were scheduled and not reported to have run, at most."""
    most = ran = 0
    for entry in read_journal(engine.journal):
        if entry.kind in {"step_scheduled", "step_finished"}:
            step = json.loads(bytes(entry.content))["step"]
            if entry.kind == "step_finished":
                ran = step
            most = max(most, step - ran)
    return most


def test_a_conversation_with_an_adapter_is_a_plain_engines_and_reuses_its_own_blocks(adapted: Adapted) -> None:
    expected = list(held(adapted.plain.url, POET, session="reference"))
    talk = converse(adapted.prefill, adapted.decode, model=POET)
    assert [turn.text for turn in talk.turns] == [turn.text for turn in expected]
    assert excess(talk) == []
    for writer, receiver, purpose in (
        (adapted.prefill, adapted.decode, "forward"),
        (adapted.decode, adapted.prefill, "reverse_push"),
    ):
        written, received = moved(writer, receiver, purpose)
        assert written == received > 0


def test_two_steps_are_in_flight(adapted: Adapted) -> None:
    ask(adapted.decode, Prompt(30, 300).ids(adapted.model))
    assert [most_in_flight(engine) for engine in (adapted.prefill, adapted.decode)] == [2, 2]


def test_with_an_adapter_and_without_it_no_block_is_shared(adapted: Adapted) -> None:
    prompt = Prompt(31, 300)
    ids = prompt.ids(adapted.model)
    with_it, without_it = ask(adapted.decode, ids, model=POET), ask(adapted.decode, ids)
    assert with_it.text == ask(adapted.plain, ids, model=POET).text
    assert without_it.text == ask(adapted.plain, ids).text
    assert with_it.text != without_it.text
    for answer in (with_it, without_it):
        assert answer.account["cached"] == 0
        assert prefilled(answer, adapted.prefill)["computed"] == prompt.tokens
        assert answer.account["received"] == {"forward": (prompt.tokens - 1) // BLOCK_SIZE * BLOCK_SIZE}


def test_an_adapter_that_prefill_lacks_is_computed_by_decode_and_others_still_by_prefill(adapted: Adapted) -> None:
    ids = Prompt(32, 300).ids(adapted.model)
    answer = ask(adapted.decode, ids, model=CLERK)
    assert answer.text == ask(adapted.plain, ids, model=CLERK).text
    assert (answer.account["received"], answer.account["local"]) == ({}, "all_failed")
    assert "failure=unknown_model" in adapted.decode.log.read_text()
    assert ask(adapted.decode, Prompt(33, 300).ids(adapted.model), model=POET).account["received"] != {}


def test_requests_that_come_and_go_at_any_moment_leave_the_others_right_and_nothing_behind(adapted: Adapted) -> None:
    prompts = [prompt.ids(adapted.model) for prompt in (Prompt(35, 1_500), Prompt(36, 700))]
    expected = [ask(adapted.plain, ids).text for ids in prompts]
    asking = [Asking(adapted.decode, ids) for ids in prompts]
    for number in range(8):
        with a_client(adapted.decode, Prompt(2_000 + number, 400).ids(adapted.model)):
            time.sleep(0.1 * number)
    assert [each.answer().text for each in asking] == expected
    assert [ask(adapted.decode, ids).text for ids in prompts] == expected
    nothing_is_held(adapted.prefill, adapted.decode)


def test_an_adapter_that_lies_elsewhere_at_prefill_has_other_names_there_and_decode_computes(adapted: Adapted) -> None:
    ids = Prompt(34, 300).ids(adapted.model)
    answer = ask(adapted.decode, ids, model=MOVED)
    assert answer.text == ask(adapted.plain, ids, model=MOVED).text
    assert answer.account["received"] == {}
    assert "note_not_used" in adapted.prefill.log.read_text()
