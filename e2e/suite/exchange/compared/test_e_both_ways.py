# SPDX-License-Identifier: Apache-2.0
"""Each engine waits for blocks of the other at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from e2e.exchange.afterwards import all_blocks_free, metrics_now
from e2e.exchange.engines import Engine
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Answer, ask
from e2e.suite.exchange.compared.conftest import Compared


def received(engine: Engine, purpose: str) -> float:
    return value_of(metrics_now(engine), "tandem_blocks_received_total", purpose=purpose)


def asked_at_once(
    compared: Compared, prompts: Sequence[Sequence[int]], amid: Callable[[], object] = lambda: None
) -> list[Answer]:
    """Decode's answers to all of these, each the plain engine's, while `amid` happens."""
    for ids in prompts:
        compared.expected(ids)
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = [pool.submit(ask, compared.decode, list(ids)) for ids in prompts]
        wait(answers, timeout=0.5)
        amid()
        for ids, answer in zip(prompts, answers, strict=True):
            assert answer.result(120).text == compared.expected(ids)
        return [answer.result() for answer in answers]


def known_and_new(compared: Compared, seed: int) -> list[list[int]]:
    """Prompts of which decode has the beginning and prefill nothing, and others that are new to both, alternating."""
    known = [compared.ids(seed + number, 500) for number in range(2)]
    for ids in known:
        compared.same(ids)
    all_blocks_free(compared.prefill, 10.0)
    continued = [ids + compared.ids(seed + 10, 100) for ids in known]
    new = [compared.ids(seed + 20 + number, 700) for number in range(2)]
    return [each for both in zip(new, continued, strict=True) for each in both]


def test_prefill_fetches_from_decode_while_decode_waits_for_prefill(compared: Compared) -> None:
    prompts = known_and_new(compared, 600)
    fetched, forwarded = received(compared.prefill, "reverse_fetch"), received(compared.decode, "forward")
    answers = asked_at_once(compared, prompts)
    assert [answer.account["local"] for answer in answers] == [""] * len(prompts)
    assert received(compared.prefill, "reverse_fetch") - fetched == 2 * (500 // 32)
    assert received(compared.decode, "forward") - forwarded == 2 * (699 // 32) + 2 * (599 // 32 - 500 // 32)


def test_both_caches_are_reset_while_each_waits_for_the_other(compared: Compared) -> None:
    prompts = known_and_new(compared, 700)

    def reset() -> None:
        for engine in (compared.prefill, compared.decode):
            engine.post("/reset_prefix_cache")

    asked_at_once(compared, prompts, amid=reset)
