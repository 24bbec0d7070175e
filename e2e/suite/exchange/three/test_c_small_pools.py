# SPDX-License-Identifier: Apache-2.0
"""More is asked than either pool has blocks for."""

from typing import Final

from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.asking import ask_at_once, asking
from e2e.exchange.engine import Engine
from e2e.exchange.numbers import value_of
from e2e.suite.exchange.conftest import CROWD, CROWD_OUTPUT, Reference
from e2e.suite.exchange.three.conftest import Three

SETTLES_WITHIN: Final = 30.0


def preemptions(engine: Engine) -> float:
    return value_of(engine.metrics(), "vllm:num_preemptions_total")


def test_a_crowd_that_fits_neither_pool_is_answered_though_requests_are_preempted(
    three: Three, reference: Reference
) -> None:
    prefill, decode = three.prefill, three.decode
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)
    before = preemptions(prefill), preemptions(decode)
    answers = ask_at_once(decode, [prompt.ids(three.model) for prompt in CROWD], output=CROWD_OUTPUT)
    assert [answer.text for answer in answers] == [reference.crowd[prompt] for prompt in CROWD]
    assert sum("forward" in answer.account["received"] for answer in answers) > 0
    assert preemptions(prefill) > before[0], "no request that produces was preempted"
    assert preemptions(decode) > before[1], "no request that had waited was preempted"
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)


def test_a_full_prefill_pool_serves_its_own_clients_and_decodes(three: Three, reference: Reference) -> None:
    """Both engines are asked the same at once, so that what is wanted is computed for somebody who may lose it."""
    model, prefill, decode = three.model, three.prefill, three.decode
    asked = [
        (prompt, asking(engine, prompt.ids(model), output=80)) for prompt in CROWD[:5] for engine in (prefill, decode)
    ]
    assert [reference.is_right(prompt, each.result().text) for prompt, each in asked] == [True] * len(asked)
    nothing_is_held(prefill, decode, within=SETTLES_WITHIN)
