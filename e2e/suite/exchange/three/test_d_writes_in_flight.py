# SPDX-License-Identifier: Apache-2.0
"""An engine freezes or dies with writes in flight, in either direction: right text, right bytes, nothing held.

Through their windows a rank is made to stop right after it has posted a write.
"""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from e2e.conversation import SCRIPT, Conversation, Turn
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import all_blocks_free, metrics_now, nothing_is_held
from e2e.exchange.asking import Meanwhile, asking
from e2e.exchange.engine import Engine
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Prompt, ask
from e2e.exchange.window import (
    contents_of,
    hold_transfers,
    keep_quarantine,
    names_of,
    stop_after,
    wait_until_stopped,
)
from e2e.suite.exchange.conftest import CROWD, Reference
from e2e.suite.exchange.three.conftest import PATIENCE, Three

pytestmark = pytest.mark.long

ROUNDING = 1e-3
"""Most by which the same token's KV differs when it was computed in other company. Other tokens' differ by more than 1."""
PROMPT_TOKENS = 900
TTL = 2 * (PATIENCE + 0.01 * PROMPT_TOKENS)
"""Seconds for which decode wants them at most: two attempts."""
AFTER_A_DEATH = 30.0
"""The transport's bound and more."""


def test_both_decode_engines_are_served_at_once(three: Three, reference: Reference) -> None:
    engines = (three.decode, three.other)
    asked = [(engine, prompt, asking(engine, prompt.ids(three.model))) for prompt in CROWD for engine in engines]
    wrong = [
        (engine.name, prompt) for engine, prompt, each in asked if not reference.is_right(prompt, each.result().text)
    ]
    assert wrong == []
    nothing_is_held(three.prefill, *engines, within=AFTER_A_DEATH)


@dataclass(frozen=True)
class Frozen:
    """What became of a decode engine into which prefill wrote after the ttl."""

    texts_right: list[bool]
    again_right: list[bool]
    """The last of them, which are cached, asked again after the late writes."""
    late: float
    """Blocks that the connector saw written late."""
    compared: int
    """Blocks with a name that prefill, which computed the same prompts later, has too."""
    wrong: int
    """Those of them with other content."""


@pytest.fixture(scope="module")
def frozen(three: Three, reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Frozen]:
    """Prefill is frozen with writes to both decode engines in flight, and thaws when their wants are long over.

    The other decode engine keeps no quarantine.
    """
    prefill, model, both = three.prefill, three.model, (three.decode, three.other)
    keep_quarantine(three.other, keeps=False)
    ids = {engine.name: Prompt(300 + number, PROMPT_TOKENS).ids(model) for number, engine in enumerate(both)}
    for engine in both:
        # What is there already goes in two transfers, more than the kernel's buffers take from a peer that reads nothing.
        ask(prefill, ids[engine.name], output=1)
        hold_transfers(engine, held=True)
    stop_after(prefill, 4)
    began = time.monotonic()
    first = [asking(engine, ids[engine.name]) for engine in both]
    wait_until_stopped(prefill, within=60.0)
    prefill.signal(signal.SIGSTOP)
    for engine in both:
        hold_transfers(engine, held=False)

    # Each computes its prompt itself, and then so much else that every block which can be reused is.
    def crowd(engine: Engine) -> list[bool]:
        return [reference.is_right(prompt, ask(engine, prompt.ids(model)).text) for prompt in CROWD]

    for answer in first:
        answer.result()
    crowds = [Meanwhile(lambda engine=engine: crowd(engine)) for engine in both]  # type: ignore[misc]
    right = [each.result() for each in crowds]
    time.sleep(max(0.0, began + TTL + 1.0 - time.monotonic()))
    prefill.signal(signal.SIGCONT)
    for engine in both:
        # What comes for this comes after what is late.
        ask(engine, Prompt(320, 200).ids(model))
    nothing_is_held(prefill, within=60.0)

    folder = tmp_path_factory.mktemp("contents")
    found = {}
    for engine, texts_right in zip(both, right, strict=True):
        late = value_of(metrics_now(engine), "tandem_late_notifications_total")
        for prompt in CROWD[-3:]:
            ask(prefill, prompt.ids(model), output=1)
        compared, wrong = differing(engine, prefill, folder)
        again = [reference.is_right(prompt, ask(engine, prompt.ids(model)).text) for prompt in CROWD[:-4:-1]]
        found[engine.name] = Frozen(texts_right, again, late, compared, wrong)
    return found


def differing(engine: Engine, other: Engine, folder: Path) -> tuple[int, int]:
    """How many blocks have a name in both engines, and how many of these have different content."""
    here, there = names_of(engine), names_of(other)
    common = sorted(here.keys() & there.keys())
    ours = contents_of(engine, [here[name] for name in common], folder)
    theirs = contents_of(other, [there[name] for name in common], folder)
    return len(common), int((np.abs(ours - theirs).max(axis=1) > ROUNDING).sum())


def test_late_writes_of_a_thawed_engine_land_in_no_block_that_was_given_to_others(frozen: dict[str, Frozen]) -> None:
    kept = frozen["decode"]
    assert kept.texts_right == [True] * len(CROWD)
    assert kept.again_right == [True] * 3
    assert kept.late > 0, "nothing was written late"
    assert kept.compared > 30
    assert kept.wrong == 0


def test_without_the_quarantine_the_same_check_finds_foreign_bytes(frozen: dict[str, Frozen]) -> None:
    assert frozen["other"].texts_right == [True] * len(CROWD)
    assert frozen["other"].wrong > 0


def test_a_decode_engine_that_dies_while_prefill_writes_into_it_leaves_nothing_behind(
    three: Three, reference: Reference
) -> None:
    prefill, dying, model = three.prefill, three.other, three.model
    stop_after(prefill, 1)
    Meanwhile(lambda: ask(dying, Prompt(310, PROMPT_TOKENS).ids(model)))
    wait_until_stopped(prefill, within=60.0)
    dying.kill()
    prefill.signal(signal.SIGCONT)
    three.engines.tell()
    answer = ask(three.decode, CROWD[0].ids(model))
    assert reference.is_right(CROWD[0], answer.text)
    nothing_is_held(prefill, three.decode, within=AFTER_A_DEATH)


@pytest.fixture(scope="module")
def conversation(three: Three) -> Iterator[Conversation]:
    conversation = Conversation(three.decode.url, MODEL_NAME, session="writes-in-flight")
    yield conversation
    conversation.close()


def said(conversation: Conversation, turn: int) -> Meanwhile[Turn]:
    return Meanwhile(lambda: conversation.say(SCRIPT[turn]))


def test_a_prefill_engine_that_dies_while_decode_pushes_into_it_is_done_without(
    three: Three, reference: Reference, conversation: Conversation
) -> None:
    decode = three.decode
    stop_after(decode, 1)
    answer = said(conversation, 0)
    wait_until_stopped(decode, within=60.0)
    three.prefill.kill()
    decode.signal(signal.SIGCONT)
    assert answer.result().text == reference.conversation[0].text
    three.engines.tell()
    nothing_is_held(decode, within=AFTER_A_DEATH)


def test_a_conversation_goes_on_with_the_prefill_engine_that_came_after_it(
    three: Three, reference: Reference, conversation: Conversation
) -> None:
    three.engines.start(prefill=three.prefill.spec)
    three.engines.wait_for_connections()
    assert said(conversation, 1).result().text == reference.conversation[1].text
    assert three.decode.turns()[-1]["received"] != {}


def test_a_prefill_engine_that_dies_while_decode_writes_what_it_fetches_is_done_without(
    three: Three, reference: Reference, conversation: Conversation
) -> None:
    prefill, decode = three.prefill, three.decode
    # What decode has pushed goes, what it still has in its own cache is fetched.
    all_blocks_free(prefill, 15.0)
    stop_after(decode, 1)
    answer = said(conversation, 2)
    wait_until_stopped(decode, within=60.0)
    prefill.kill()
    decode.signal(signal.SIGCONT)
    assert answer.result().text == reference.conversation[2].text
    three.engines.tell()
    nothing_is_held(decode, within=AFTER_A_DEATH)
