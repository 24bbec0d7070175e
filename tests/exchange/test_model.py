# SPDX-License-Identifier: Apache-2.0
"""The exchange under every fault that its surroundings can have, and proof that the check would see one of its own."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.exchange.machine import ExchangeMachine

QUICK = settings(
    max_examples=120,
    stateful_step_count=50,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_no_content_is_wrong_no_block_has_two_owners_and_every_want_ends() -> None:
    run_state_machine_as_test(ExchangeMachine, settings=QUICK)
