# SPDX-License-Identifier: Apache-2.0
"""Requests that are made at the same time."""

from threading import Event

import pytest

from e2e.bench.kv.client import at_once


def test_when_the_run_is_told_to_end_nobody_waits_for_an_answer() -> None:
    given_up, ends = [], Event()

    def answer_that_does_not_come() -> None:
        ends.wait(10.0)
        given_up.append(True)

    def told_to_end() -> None:
        with at_once(1) as pool:
            pool.submit(answer_that_does_not_come)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        told_to_end()
    assert given_up == []
    ends.set()


def test_what_goes_well_is_waited_for() -> None:
    answered = []
    with at_once(2) as pool:
        for _ in range(3):
            pool.submit(lambda: answered.append(True))
    assert answered == [True] * 3
