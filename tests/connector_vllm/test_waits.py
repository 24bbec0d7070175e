# SPDX-License-Identifier: Apache-2.0
"""How long an empty step sleeps while nobody would ring."""

from tandem_connector.vllm.waits import LONGEST, SHORTEST, Waits


def test_an_engine_that_waits_for_something_of_vllms_own_looks_less_and_less_often() -> None:
    waits = Waits()
    taken = [waits.take() for _ in range(8)]
    assert taken[:3] == [SHORTEST, 2 * SHORTEST, 4 * SHORTEST]
    assert taken[-1] == LONGEST


def test_it_looks_often_again_when_something_happened() -> None:
    waits = Waits()
    for _ in range(8):
        waits.take()
    waits.happened()
    assert waits.take() == SHORTEST
