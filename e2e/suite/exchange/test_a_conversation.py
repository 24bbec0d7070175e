# SPDX-License-Identifier: Apache-2.0
"""A conversation with decode only: what it answers, what each engine computed for it, and what was moved."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.exchange.engines import BLOCK_SIZE
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Prompt, ask
from e2e.suite.exchange.conftest import PROMPTS, Pair, Reference
from e2e.suite.exchange.conversing import Held, blocks_filled, converse, moved, prefilled


@pytest.fixture(scope="module")
def conversation(pair: Pair) -> Held:
    return converse(pair.prefill, pair.decode)


def test_each_answer_is_a_plain_engines(conversation: Held, reference: Reference) -> None:
    assert [turn.text for turn in conversation.turns] == [turn.text for turn in reference.conversation]


def test_prefill_computes_the_first_prompt_and_then_what_is_new(conversation: Held) -> None:
    first, *later = conversation.prefill
    assert first["computed"] == first["prompt"]
    for account, before in zip(later, conversation.decode, strict=False):
        new = account["prompt"] - (before["prompt"] + before["output"])
        assert account["computed"] < new + BLOCK_SIZE + 1


def test_decode_computes_less_than_one_block_of_each_prompt(conversation: Held) -> None:
    assert [account["computed"] < BLOCK_SIZE + 1 for account in conversation.decode] == [True] * 3


def test_what_decode_lacked_came_from_prefill_and_nothing_else_did(conversation: Held) -> None:
    for account in conversation.decode:
        missing = (account["prompt"] - 1) // BLOCK_SIZE * BLOCK_SIZE - account["cached"]
        assert account["received"] == {"forward": missing}


def test_what_decode_computed_was_at_prefill_before_the_next_turn(conversation: Held) -> None:
    filled = 0
    for landed, account in zip(conversation.landed_before, conversation.decode, strict=True):
        filled += blocks_filled(account)
        assert landed == filled


def test_as_many_bytes_were_written_as_received_in_both_directions(conversation: Held, pair: Pair) -> None:
    for writer, receiver, purpose in (
        (pair.prefill, pair.decode, "forward"),
        (pair.decode, pair.prefill, "reverse_push"),
    ):
        written, received = moved(writer, receiver, purpose)
        assert written == received > 0


def test_nothing_that_was_wanted_failed_to_come(conversation: Held, pair: Pair) -> None:
    for engine in (pair.prefill, pair.decode):
        assert value_of(engine.metrics(), "tandem_blocks_lost_total") == 0


def test_decode_says_in_a_response_where_the_tokens_came_from(pair: Pair, reference: Reference) -> None:
    prompt = PROMPTS[0]
    # So many tokens that prefill's response, whose number this is, comes long before the last of them.
    answer = ask(pair.decode, prompt.ids(pair.model), output=300)
    blocks = (prompt.tokens - 1) // BLOCK_SIZE
    assert answer.text.startswith(reference.texts[prompt])
    assert answer.account["received"] == {"forward": blocks * BLOCK_SIZE}
    assert answer.account["computed"] == prompt.tokens - blocks * BLOCK_SIZE
    assert answer.account["computed_by_prefill"] == prompt.tokens


@pytest.mark.parametrize(
    "params",
    [
        {
            "do_remote_prefill": True,
            "remote_engine_id": "x",
            "remote_block_ids": [1],
            "remote_host": "h",
            "remote_port": 1,
        },
        {"do_remote_decode": True},
        {"tandem": 5},
        {"tandem": {"version": 1, "decode": "d", "prefill": "p", "held_tokens": 9, "turn": "t", "seal": "0" * 64}},
        {"tandem": {"version": 99}},
    ],
)
def test_what_a_client_sends_along_changes_nothing(pair: Pair, reference: Reference, params: dict[str, Any]) -> None:
    prompt = PROMPTS[1]
    for engine in (pair.decode, pair.prefill):
        assert ask(engine, prompt.ids(pair.model), kv_transfer_params=params).text == reference.texts[prompt]


def test_prefill_fetches_what_it_lost_and_decode_has(pair: Pair) -> None:
    ids = PROMPTS[3].ids(pair.model)
    ask(pair.decode, ids)
    time.sleep(0.5)
    assert pair.prefill.post("/reset_prefix_cache")["success"]

    more = Prompt(77, 200).ids(pair.model)
    answer = ask(pair.decode, ids + more)

    held_blocks = (len(ids) - 1) // BLOCK_SIZE
    account = prefilled(answer, pair.prefill)
    assert account["received"]["reverse_fetch"] >= held_blocks * BLOCK_SIZE
    assert account["computed"] < len(more) + 2 * BLOCK_SIZE


def test_two_tenants_with_salts_have_no_block_in_common(pair: Pair, reference: Reference) -> None:
    prompt = PROMPTS[4]
    ids = prompt.ids(pair.model)
    one = ask(pair.decode, ids, cache_salt="tenant-one")
    other = ask(pair.decode, ids, cache_salt="tenant-two")
    assert one.text == other.text == reference.texts[prompt]
    assert other.account["cached"] == 0
    assert prefilled(other, pair.prefill)["computed"] == prompt.tokens


def test_an_engine_computes_on_the_core_that_it_is_bound_to_and_on_no_other(pair: Pair) -> None:
    for engine in (pair.prefill, pair.decode):
        titles = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0] for pid in engine.processes()}
        (worker,) = [pid for pid, title in titles.items() if title.startswith(b"VLLM::Worker")]
        assert os.sched_getaffinity(worker) == {int(engine.spec.core)}


def test_idle_engines_sleep(pair: Pair) -> None:
    time.sleep(2.0)
    before = pair.prefill.cpu_seconds(), pair.decode.cpu_seconds()
    time.sleep(10.0)
    used = pair.prefill.cpu_seconds() - before[0], pair.decode.cpu_seconds() - before[1]
    # Goal of the connector: 0.02. vLLM's own front end takes some.
    assert max(used) / 10.0 < 0.05


def test_afterwards_no_block_is_held(pair: Pair) -> None:
    assert pair.prefill.post("/reset_prefix_cache")["success"]
    assert pair.decode.post("/reset_prefix_cache")["success"]
