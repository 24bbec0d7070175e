# SPDX-License-Identifier: Apache-2.0
"""Clients that go away, and prefill engines that die, freeze, or lose what they had: right text, no hang, no block held."""

import http.client
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.conversation import held
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import all_blocks_free
from e2e.exchange.engines import Engine, EngineSpec
from e2e.exchange.prompts import Answer, Prompt, ask
from e2e.suite.exchange.conftest import EVERY_PREFILL, PROMPTS, Pair, Reference
from tandem_connector.contract.types import Role

TRANSPORT_BOUND = 10.0
"""Seconds for which blocks stay held when a peer has died."""


class Asking:
    """An answer that is on its way."""

    def __init__(self, engine: Engine, ids: list[int]) -> None:
        self._answer: Answer | None = None
        self._thread = threading.Thread(target=self._ask, args=(engine, ids))
        self._thread.start()

    def _ask(self, engine: Engine, ids: list[int]) -> None:
        self._answer = ask(engine, ids)

    def answer(self) -> Answer:
        self._thread.join(120)
        assert self._answer is not None
        return self._answer


@contextmanager
def a_client(engine: Engine, ids: list[int]) -> Iterator[None]:
    """Asks for a stream, and hangs up at the end."""
    connection = http.client.HTTPConnection("127.0.0.1", engine.port)
    body = {"model": MODEL_NAME, "prompt": ids, "max_tokens": 200, "temperature": 0.0, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    yield
    connection.sock.close()
    connection.close()


def test_a_client_that_hangs_up_while_decode_waits_leaves_nothing_behind(pair: Pair) -> None:
    with a_client(pair.decode, Prompt(50, 3_500).ids(pair.model)):
        time.sleep(1.0)
    all_blocks_free(pair.decode, 10.0)
    all_blocks_free(pair.prefill, 10.0)
    assert pair.decode.turns()[-1]["output"] == 0


def test_many_clients_that_hang_up_at_any_moment_leave_nothing_behind(pair: Pair, reference: Reference) -> None:
    for number in range(20):
        with a_client(pair.decode, Prompt(1_000 + number, 600).ids(pair.model)):
            time.sleep(0.05 * number)
    all_blocks_free(pair.decode, 20.0)
    all_blocks_free(pair.prefill, 20.0)
    prompt = PROMPTS[1]
    assert ask(pair.decode, prompt.ids(pair.model)).text == reference.texts[prompt]


def test_the_same_prompt_of_several_clients_is_computed_and_moved_once(pair: Pair, reference: Reference) -> None:
    all_blocks_free(pair.prefill, 10.0)
    all_blocks_free(pair.decode, 10.0)
    prompt = PROMPTS[0]
    before = len(pair.prefill.turns())
    answers = [each.answer() for each in [Asking(pair.decode, prompt.ids(pair.model)) for _ in range(4)]]
    assert {answer.text for answer in answers} == {reference.texts[prompt]}
    assert len(pair.prefill.turns()) - before == 1
    received = [answer.account["received"].get("forward", 0) for answer in answers]
    assert sum(received) == max(received)


def test_a_prefill_engine_that_dies_while_decode_waits_is_done_without(pair: Pair, reference: Reference) -> None:
    prompt = PROMPTS[5]
    asking = Asking(pair.decode, prompt.ids(pair.model))
    time.sleep(1.5)
    pair.prefill.kill()
    assert asking.answer().text == reference.texts[prompt]
    pair.engines.tell()
    all_blocks_free(pair.decode, TRANSPORT_BOUND + 10.0)


def test_without_a_prefill_engine_decode_is_a_plain_engine(pair: Pair, reference: Reference) -> None:
    prompt = PROMPTS[4]
    answer = ask(pair.decode, prompt.ids(pair.model))
    assert answer.text == reference.texts[prompt]
    assert (answer.account["computed"], answer.account["local"]) == (prompt.tokens, "no_peer")


def test_a_prefill_engine_that_takes_the_place_of_a_dead_one_is_used(pair: Pair, reference: Reference) -> None:
    pair.engines.start(prefill=EngineSpec(Role.PREFILL, core="0", extra=EVERY_PREFILL))
    pair.engines.wait_for_connections()
    turns = list(held(pair.decode.url, MODEL_NAME, session="after"))
    assert [turn.text for turn in turns] == [turn.text for turn in reference.conversation]
    assert [account["received"] != {} for account in pair.decode.turns()[-3:]] == [True] * 3


def test_a_frozen_prefill_engine_is_done_without_and_used_again_when_it_thaws(pair: Pair, reference: Reference) -> None:
    prompt, again = PROMPTS[2], PROMPTS[1]
    pair.prefill.signal(signal.SIGSTOP)
    try:
        assert ask(pair.decode, prompt.ids(pair.model)).text == reference.texts[prompt]
    finally:
        pair.prefill.signal(signal.SIGCONT)
    # A prefill engine that failed is left alone for some seconds.
    time.sleep(12.0)
    all_blocks_free(pair.decode, 20.0)
    answer = ask(pair.decode, again.ids(pair.model))
    assert answer.text == reference.texts[again]
    assert answer.account["received"] != {}
    all_blocks_free(pair.prefill, 20.0)
