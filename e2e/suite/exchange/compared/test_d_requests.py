# SPDX-License-Identifier: Apache-2.0
"""Requests of all kinds and lengths: decode answers as a plain engine, with prefill's help where that is possible."""

import urllib.error
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.exchange.afterwards import metrics_now
from e2e.exchange.engines import BLOCK_SIZE
from e2e.exchange.likeness import difference, steps
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import OUTPUT, ask
from e2e.suite.exchange.compared.conftest import Compared

LONGEST = 4_096
"""Tokens of prompt and output together (`--max-model-len`)."""
ABOVE = 64
"""Missing tokens above which prefill is asked."""


@pytest.mark.parametrize(
    "tokens", [1, 5, BLOCK_SIZE - 1, BLOCK_SIZE, ABOVE, ABOVE + 1, 3 * BLOCK_SIZE, 3 * BLOCK_SIZE + 1]
)
def test_a_prompt_of_any_length(compared: Compared, tokens: int) -> None:
    account = compared.same(compared.ids(500 + tokens, tokens), output=8).account
    from_prefill = (tokens - 1) // BLOCK_SIZE * BLOCK_SIZE if tokens > ABOVE else 0
    assert account["received"] == ({"forward": from_prefill} if from_prefill else {})
    assert account["local"] == ("" if from_prefill else "few_missing")
    assert account["computed"] == tokens - from_prefill


def test_a_prompt_as_long_as_the_model_allows(compared: Compared) -> None:
    ids = compared.ids(520, LONGEST - 1)
    account = compared.same(ids, output=1).account
    assert account["received"] == {"forward": (len(ids) - 1) // BLOCK_SIZE * BLOCK_SIZE}


def test_a_prompt_that_is_too_long_is_refused_as_by_any_engine(compared: Compared) -> None:
    for engine in (compared.plain, compared.decode):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(engine, compared.ids(521, LONGEST + 1), output=1)
        assert refused.value.code == 400


def test_an_answer_of_one_token(compared: Compared) -> None:
    assert compared.same(compared.ids(522, 200), output=1).account["received"] == {"forward": 192}


def test_several_answers_to_one_prompt_share_one_prefill(compared: Compared) -> None:
    before = len(compared.prefill.turns())
    texts = compared.same_texts(prompt=compared.ids(523, 200), n=3, seed=5, temperature=1.0, max_tokens=12)
    assert len(set(texts)) > 1
    wait_until("prefill to end its turn", lambda: len(compared.prefill.turns()) > before, 10.0)
    assert len(compared.prefill.turns()) == before + 1


def test_several_prompts_in_one_request(compared: Compared) -> None:
    prompts = [compared.ids(524, 200), compared.ids(525, 10), compared.ids(526, 150), compared.ids(524, 200)]
    assert len(compared.same_texts(prompt=prompts, temperature=0.0, max_tokens=12)) == len(prompts)


def test_a_prompt_that_is_to_be_repeated_before_the_answer(compared: Compared) -> None:
    before = forward(compared)
    compared.same_texts(prompt=compared.ids(527, 200), temperature=0.0, max_tokens=8, echo=True)
    assert forward(compared) == before + 192 // BLOCK_SIZE


@pytest.mark.parametrize("more", [{"echo": True, "logprobs": 1}, {"prompt_logprobs": 1}], ids=["echo", "prompt"])
def test_log_probabilities_of_the_prompt_are_computed_by_decode(compared: Compared, more: dict[str, Any]) -> None:
    before = forward(compared)
    compared.same_texts(prompt=compared.ids(528, 200), temperature=0.0, max_tokens=8, **more)
    metrics = metrics_now(compared.decode)
    assert forward(compared) == before
    assert value_of(metrics, "tandem_prompts_local_total", reason="prompt_logprobs") > 0


def test_a_stop_string_ends_an_answer_where_it_does_at_any_engine(compared: Compared) -> None:
    ids = compared.ids(529, 200)
    words = compared.expected(ids).split()
    compared.same_texts(prompt=ids, temperature=0.0, max_tokens=24, stop=[words[5], words[9]])


def test_an_answer_that_a_stop_string_ends_tells_its_account_and_counts(compared: Compared) -> None:
    ids = compared.ids(532, 200)
    words = compared.expected(ids).split()
    before = accounted(compared)
    answer = ask(compared.decode, ids, stop=[words[5]])
    assert answer.account["received"] == {"forward": 192}
    assert answer.account["output"] == len(answer.tokens) < OUTPUT
    wait_until("the turn to be counted", lambda: accounted(compared) == before + 200, 10.0)


def test_a_conversation_with_tools(compared: Compared) -> None:
    call = {"id": "call-1", "type": "function", "function": {"name": "load_of", "arguments": '{"engine": "decode-2"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You watch over a fleet of prefill and decode engines. " * 3},
        {"role": "user", "content": "Which engine has most to do, and since when? Look at all of them. " * 3},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call-1", "content": '{"engine": "decode-2", "waiting": 17}'},
    ]
    for question in ("And now?", "And the one after it?"):
        before = forward(compared)
        (text,) = compared.same_texts("/v1/chat/completions", messages=messages, temperature=0.0, max_tokens=16)
        assert forward(compared) > before
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": question * 40}]


def test_log_probabilities_of_the_answer_are_a_plain_engines_up_to_rounding(compared: Compared) -> None:
    ids, more = compared.ids(530, 500), compared.ids(531, 100)
    first = steps(compared.decode, ids, output=64)
    assert difference(steps(compared.plain, ids, output=64), first) is None
    # With blocks that each of the two engines computed.
    second = [*ids, *(step.token for step in first), *more]
    got = steps(compared.decode, second, output=64)
    assert difference(steps(compared.plain, second, output=64), got) is None
    assert forward(compared) > 0


def forward(compared: Compared) -> float:
    """Blocks that prefill has sent to decode."""
    return value_of(metrics_now(compared.decode), "tandem_blocks_received_total", purpose="forward")


def accounted(compared: Compared) -> int:
    """Prompt tokens of the turns that decode has counted."""
    return compared.decode.account().prompt
