# SPDX-License-Identifier: Apache-2.0
"""Conversations that don't simply go on: edited, shortened, forked, cut by a stop string, or continued elsewhere."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from openai import OpenAI

from e2e.cluster.progress import wait_until
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import metrics_now
from e2e.exchange.engines import BLOCK_SIZE, Engine
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Answer, ask
from e2e.suite.exchange.compared.conftest import Compared
from e2e.suite.exchange.conversing import prefilled


def whole_blocks(tokens: int) -> int:
    """How many of so many tokens are in full blocks."""
    return tokens // BLOCK_SIZE * BLOCK_SIZE


def landed(compared: Compared) -> float:
    return value_of(metrics_now(compared.prefill), "tandem_blocks_received_total", purpose="reverse_push")


@contextmanager
def all_comes_back(compared: Compared, prompt: int, output: int) -> Iterator[None]:
    """At the end prefill has the blocks of a turn that it didn't compute: what decode said, and the prompt's last tokens."""
    before = landed(compared)
    yield
    # The last token has no KV yet.
    blocks = (prompt + output - 1) // BLOCK_SIZE - prompt // BLOCK_SIZE
    wait_until("blocks to come back to prefill", lambda: landed(compared) >= before + blocks, 10.0)


def said(compared: Compared, ids: Sequence[int], *, output: int = 96, by: Engine | None = None) -> Answer:
    """The first turn of a conversation; prefill has all of it."""
    with all_comes_back(compared, len(ids), output):
        return compared.same(ids, output=output, by=by)


def only_new_tokens_were_computed(compared: Compared, answer: Answer, prompt: Sequence[int], known: int) -> None:
    """Of a prompt whose first `known` tokens are known: the others, and less than a block more at each engine."""
    assert answer.account["local"] == ""
    assert prefilled(answer, compared.prefill)["computed"] == len(prompt) - whole_blocks(known)
    assert answer.account["computed"] == len(prompt) - whole_blocks(len(prompt) - 1)


def test_a_history_that_was_edited_in_its_middle_is_known_up_to_there(compared: Compared) -> None:
    start, middle, end, more = (compared.ids(seed, 150) for seed in (401, 402, 403, 404))
    first = said(compared, start + middle + end)
    other_middle = compared.ids(405, 150)
    edited = [*start, *other_middle, *end, *first.tokens, *more]
    answer = compared.same(edited)
    only_new_tokens_were_computed(compared, answer, edited, known=len(start))
    assert answer.account["cached"] == whole_blocks(len(start))


def test_a_history_without_its_reasoning_is_known_up_to_there(compared: Compared) -> None:
    ids, more = compared.ids(411, 300), compared.ids(412, 60)
    first = said(compared, ids)
    stripped = [*ids, *first.tokens[64:], *more]
    only_new_tokens_were_computed(compared, compared.same(stripped), stripped, known=len(ids))
    second = [*ids, *first.tokens, *more]
    only_new_tokens_were_computed(compared, compared.same(second), second, known=len(ids) + len(first.tokens) - 1)


def test_two_branches_of_one_turn_are_both_known_up_to_it(compared: Compared) -> None:
    ids = compared.ids(421, 300)
    first = said(compared, ids)
    branches = [[*ids, *first.tokens, *compared.ids(seed, 100)] for seed in (422, 423)]
    for branch in branches:
        compared.expected(branch)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(compared.same, branches))
    for branch, answer in zip(branches, answers, strict=True):
        only_new_tokens_were_computed(compared, answer, branch, known=len(ids) + len(first.tokens) - 1)


def test_a_conversation_that_lands_on_another_decode_engine_is_found_on_prefill(compared: Compared) -> None:
    ids = compared.ids(431, 300)
    first = said(compared, ids)
    known = len(ids) + len(first.tokens) - 1
    second = [*ids, *first.tokens, *compared.ids(432, 100)]

    with all_comes_back(compared, len(second), 96):
        answer = compared.same(second, output=96, by=compared.second)
    only_new_tokens_were_computed(compared, answer, second, known)
    assert (answer.account["cached"], answer.account["received"]) == (0, {"forward": whole_blocks(len(second) - 1)})

    # And back: the first engine lacks what was said at the other one, and has the rest.
    third = [*second, *answer.tokens, *compared.ids(433, 100)]
    back = compared.same(third)
    only_new_tokens_were_computed(compared, back, third, len(second) + len(answer.tokens) - 1)
    assert back.account["cached"] == whole_blocks(known)


def test_an_answer_that_a_stop_string_cut_is_known_in_the_next_turn(compared: Compared) -> None:
    ids, output = compared.ids(441, 300), 70
    whole = compared.expected(ids, output=96)
    spoken = ask(compared.plain, ids, output=output)
    stop = next(word for word in whole[len(spoken.text) :].split() if word not in spoken.text)

    cut = whole[: whole.index(stop)]
    with all_comes_back(compared, len(ids), output):
        assert streamed(compared.decode, ids, stop) == cut == streamed(compared.plain, ids, stop)

    continued = [*ids, *spoken.tokens, *compared.ids(442, 100)]
    only_new_tokens_were_computed(compared, compared.same(continued), continued, known=len(ids) + output - 1)


def streamed(engine: Engine, ids: list[int], stop: str) -> str:
    client = OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0, timeout=60.0)
    with client.completions.create(
        model=MODEL_NAME, prompt=ids, max_tokens=96, temperature=0.0, stop=[stop], stream=True
    ) as stream:
        return "".join(chunk.choices[0].text for chunk in stream if chunk.choices)
