# SPDX-License-Identifier: Apache-2.0
"""More is asked than the pools have blocks for, requests are aborted in every state, caches are reset under their wants."""

import random
import time
import urllib.error
from typing import Final

import pytest

from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.asking import Meanwhile, ask_at_once, asking, hang_up
from e2e.exchange.engine import Engine
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Prompt, ask
from e2e.suite.exchange.conftest import CROWD, CROWD_OUTPUT, Reference
from e2e.suite.exchange.three.conftest import Three

pytestmark = pytest.mark.long

SETTLES_WITHIN: Final = 30.0
ABORTS_AT_DECODE, ABORTS_AT_PREFILL = 130, 70


def preemptions(engine: Engine) -> float:
    return value_of(engine.metrics(), "vllm:num_preemptions_total")


def test_a_crowd_that_does_not_fit_is_answered_though_requests_are_preempted_at_both(
    three: Three, reference: Reference
) -> None:
    prefill, decode = three.prefill, three.decode
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)
    before = [preemptions(engine) for engine in (prefill, decode)]
    answers = ask_at_once(decode, [prompt.ids(three.model) for prompt in CROWD], output=CROWD_OUTPUT)
    assert [answer.text for answer in answers] == [reference.crowd[prompt] for prompt in CROWD]
    assert sum("forward" in answer.account["received"] for answer in answers) > 0
    for engine, known in zip((prefill, decode), before, strict=True):
        assert preemptions(engine) > known, f"no request was preempted at {engine.name}"
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)


def test_a_full_prefill_pool_serves_its_own_clients_and_decodes(three: Three, reference: Reference) -> None:
    """Both engines are asked the same at once, so that what is wanted is computed for somebody who may lose it."""
    model, prefill, decode = three.model, three.prefill, three.decode
    asked = [
        (prompt, asking(engine, prompt.ids(model), output=80)) for prompt in CROWD[:5] for engine in (prefill, decode)
    ]
    assert [reference.is_right(prompt, each.result().text) for prompt, each in asked] == [True] * len(asked)
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)


def test_200_aborts_at_any_moment_leave_nothing_behind(three: Three, reference: Reference) -> None:
    model, prefill, decode = three.model, three.prefill, three.decode

    def leave(engine: Engine, clients: range) -> None:
        chance = random.Random(f"{engine.name}-{clients.start}")
        for number in clients:
            # Some ask the same as others do now, at the same engine or the other one.
            prompt = Prompt(2_000 + number % 40, chance.choice([150, 400, 800]))
            hang_up(engine, prompt.ids(model), after=chance.choice([0.0, 0.02, 0.1, 0.3, 0.8, 1.5]))

    leaving = [
        Meanwhile(lambda engine=engine, first=first, total=total: leave(engine, range(first, total, 4)))  # type: ignore[misc]
        for engine, total in ((decode, ABORTS_AT_DECODE), (prefill, ABORTS_AT_PREFILL))
        for first in range(4)
    ]
    for each in leaving:
        each.result()
    nothing_is_held(decode, prefill, within=SETTLES_WITHIN)
    assert reference.is_right(CROWD[0], ask(decode, CROWD[0].ids(model)).text)


def test_a_prefill_that_is_aborted_by_its_own_engine_is_done_without(three: Three, reference: Reference) -> None:
    model, prefill, decode = three.model, three.prefill, three.decode
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)
    answers = [asking(decode, prompt.ids(model)) for prompt in CROWD[:3]]
    aborted = 0
    while not all(answer.is_done for answer in answers):
        aborted += prefill.post("/abort_requests", {})["aborted"]
        time.sleep(0.05)
    texts = [answer.result().text for answer in answers]
    assert [reference.is_right(prompt, text) for prompt, text in zip(CROWD, texts, strict=False)] == [True] * 3
    assert aborted > 0
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)


def test_resets_of_both_caches_while_blocks_are_on_their_way_cost_only_what_is_computed_again(
    three: Three, reference: Reference
) -> None:
    model, prefill, decode = three.model, three.prefill, three.decode
    # A prefill engine that failed is left alone for a second.
    time.sleep(1.5)
    ended = value_of(decode.metrics(), "tandem_wants_ended_total", reason="reset")
    answers = [asking(decode, prompt.ids(model)) for prompt in CROWD[:4]]
    for round_ in range(20):
        # Not for ever: what runs begins anew with some of them.
        for engine in (decode, prefill):
            reset(engine, running=round_ % 5 == 4)
        time.sleep(0.1)
    texts = [answer.result().text for answer in answers]
    assert [reference.is_right(prompt, text) for prompt, text in zip(CROWD, texts, strict=False)] == [True] * 4
    assert value_of(decode.metrics(), "tandem_wants_ended_total", reason="reset") > ended
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)


def reset(engine: Engine, *, running: bool) -> None:
    """Reset the prefix cache, if that can be done; `running`: take the blocks from requests that run."""
    try:
        engine.post(f"/reset_prefix_cache?reset_running_requests={str(running).lower()}")
    except urllib.error.HTTPError as error:
        # vLLM doesn't take blocks from requests that wait for them, and tells so whoever asked for it.
        if error.code != 500 or not running:
            raise
