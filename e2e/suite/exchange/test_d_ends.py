# SPDX-License-Identifier: Apache-2.0
"""Engines that end: what they hold moves to a successor, what they were asked for is answered, and peers lose no block to them."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import all_blocks_free
from e2e.exchange.engines import BLOCK_SIZE, Engine, Engines, EngineSpec, running
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Prompt, ask
from e2e.suite.exchange.conftest import EVERY_PREFILL, PROMPTS, Reference
from e2e.suite.exchange.conversing import prefilled
from e2e.suite.exchange.test_b_faults import Asking
from tandem_connector import drain, probe
from tandem_connector.contract.types import Role
from tandem_connector.exchange.types import EndReason

PATIENT = ("--shutdown-timeout", "20")
HASTY = ("--shutdown-timeout", "5", "--max-num-batched-tokens", "1024")
"""No time to finish anything before peers are told (`ending.RESERVE`), and several steps for a long prompt."""
LONG = Prompt(71, 3_900)
NO_QUARANTINE = {**EVERY_PREFILL, "quarantine_share": 1e-6, "rest": 0.5}
AT_ONCE = 2.0
"""Seconds. Without being told, a peer takes as long to call an engine silent, and then holds its blocks for ten more."""
OUTPUT = 64


@pytest.fixture(scope="module")
def engines(reference: Reference, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """One that prefills, and two that decode; `first` is unwell with any block in quarantine."""
    del reference  # it wants the cores for itself
    with running(build_environment(), model, tmp_path_factory.mktemp("ends")) as started:
        started.start(
            prefill=EngineSpec(Role.PREFILL, core="0", arguments=HASTY, extra=EVERY_PREFILL),
            first=EngineSpec(Role.DECODE, core="1", arguments=PATIENT, extra=NO_QUARANTINE),
            second=EngineSpec(Role.DECODE, core="1", arguments=PATIENT, extra=EVERY_PREFILL),
        )
        started.wait_for_connections()
        yield started


@dataclass(frozen=True)
class Moved:
    """A conversation whose first turn was held with `first`, and whose second was with `second`, after it had moved."""

    turn: list[int]
    """Token ids of prompt and answer of the first."""
    prompt: list[int]
    """And of the second's prompt."""
    taken: float
    """Blocks that came to `second` by it."""
    text: str
    account: dict[str, Any]
    prefill: dict[str, Any]
    """Of the second turn, at the engine that prefills."""


@pytest.fixture(scope="module")
def moved(engines: Engines, model: Path) -> Moved:
    first, second = engines["first"], engines["second"]
    turn = _with_answer(first, PROMPTS[2].ids(model))
    engines.drain(first="second")
    # Not by the hook, after which an engine doesn't stay.
    wait_until("first to have moved", lambda: drain.stage(str(first.status_file)) == "drained", 30.0)
    taken = _taken(second)
    prompt = turn + Prompt(70, 150).ids(model)
    answer = ask(second, prompt)
    return Moved(turn, prompt, taken, answer.text, answer.account, prefilled(answer, engines["prefill"]))


def _with_answer(engine: Engine, ids: list[int]) -> list[int]:
    body = {"model": MODEL_NAME, "prompt": ids, "max_tokens": OUTPUT, "temperature": 0.0, "return_token_ids": True}
    answer: list[int] = engine.post("/v1/completions", body, timeout=120.0)["choices"][0]["token_ids"]
    return ids + answer


def _taken(engine: Engine) -> float:
    return value_of(_metrics(engine), "tandem_blocks_received_total", purpose="move")


def _metrics(engine: Engine) -> str:
    """Those of now: they go with steps that compute something."""
    ask(engine, [400, 401, 402], output=1)
    return engine.metrics()


def test_all_that_a_draining_engine_holds_is_at_its_successor_when_it_says_that_it_is_drained(moved: Moved) -> None:
    # The last token of the answer has no KV.
    assert moved.taken == (len(moved.turn) - 1) // BLOCK_SIZE


def test_the_next_turn_at_the_successor_computes_and_receives_only_what_is_new(moved: Moved) -> None:
    held = int(moved.taken) * BLOCK_SIZE
    usable = (len(moved.prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE
    assert moved.account["cached"] == held
    assert moved.account["received"] == {"forward": usable - held}
    assert moved.account["computed"] == len(moved.prompt) - usable
    assert moved.prefill["computed"] <= len(moved.prompt) - held


def test_as_many_bytes_left_the_draining_engine_as_came_and_nothing_comes_again(moved: Moved, engines: Engines) -> None:
    first, second = engines["first"], engines["second"]
    engines.drain(first="second")
    time.sleep(1.0)
    written = value_of(_metrics(first), "tandem_bytes_written_total", purpose="move")
    assert written == value_of(_metrics(second), "tandem_bytes_received_total", purpose="move") > 0
    assert _taken(second) == moved.taken


def test_a_draining_engine_asks_nobody_and_answers_the_same(moved: Moved, engines: Engines) -> None:
    first = engines["first"]
    all_blocks_free(first, AT_ONCE)
    answer = ask(first, moved.prompt)
    assert (answer.account["local"], answer.account["computed"]) == ("draining", len(moved.prompt))
    assert answer.text == moved.text


def test_an_engine_that_is_to_stay_after_all_asks_again(engines: Engines, model: Path) -> None:
    first = engines["first"]
    engines.tell()
    wait_until("first to serve", lambda: drain.stage(str(first.status_file)) == "serving", 10.0)
    assert ask(first, PROMPTS[3].ids(model)).account["received"] != {}


def test_decode_ends_in_order_while_prefill_fetches_from_it(
    engines: Engines, reference: Reference, model: Path
) -> None:
    prefill, second = engines["prefill"], engines["second"]
    prompt = PROMPTS[5]
    ask(second, prompt.ids(model)[:2_400])
    all_blocks_free(prefill, AT_ONCE)
    asking = Asking(second, prompt.ids(model))
    time.sleep(0.3)
    assert second.end() == 0
    assert asking.answer().text == reference.texts[prompt]
    all_blocks_free(prefill, AT_ONCE)
    engines.tell()


def test_an_engine_with_too_many_blocks_in_quarantine_is_not_ready_until_they_are_back(
    engines: Engines, reference: Reference, model: Path
) -> None:
    prefill, first = engines["prefill"], engines["first"]
    prompt = PROMPTS[2]
    all_blocks_free(first, AT_ONCE)
    asking = Asking(first, prompt.ids(model))
    time.sleep(0.3)
    prefill.signal(signal.SIGSTOP)
    try:
        wait_until("first to call itself unwell", lambda: "restart this engine" in _unwell(first), 20.0)
        probe.check_status(str(first.status_file), 60.0)
    finally:
        prefill.signal(signal.SIGCONT)
    wait_until("first to be well again", lambda: not _unwell(first), 10.0)
    assert asking.answer().text == reference.texts[prompt]


def _unwell(engine: Engine) -> str:
    try:
        probe.check_status(str(engine.status_file), 0)
    except probe.UnwellError as error:
        return str(error)
    return ""


def test_prefill_ends_in_order_while_decode_waits_which_goes_on_without_it_and_its_silence(
    engines: Engines, model: Path
) -> None:
    prefill, first = engines["prefill"], engines["first"]
    ids = LONG.ids(model)
    time.sleep(1.0)  # so long it is left alone after it was silent
    before = _wants_ended(first)
    asking = Asking(first, ids)
    time.sleep(0.3)
    assert prefill.end() == 0
    answer = asking.answer()
    all_blocks_free(first, AT_ONCE)
    # It is told of what will not come, or the prefill's HTTP request fails: whichever is first.
    after = _wants_ended(first)
    assert (sum(after.values()), after["peer_silent"]) == (sum(before.values()) + 1, before["peer_silent"])
    alone = ask(first, ids)
    assert alone.account["computed"] == LONG.tokens
    assert answer.text == alone.text


def _wants_ended(engine: Engine) -> dict[str, float]:
    """How many wants for requests ended, by why."""
    metrics = _metrics(engine)
    return {
        reason: value_of(metrics, "tandem_wants_ended_total", reason=reason, purpose="forward") for reason in EndReason
    }
