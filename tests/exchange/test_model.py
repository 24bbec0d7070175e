# SPDX-License-Identifier: Apache-2.0
"""The exchange under every fault that its surroundings can have, and proof that the check sees a fault of its own."""

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.own_want import OwnWant
from tandem_connector.exchange.types import Seconds
from tandem_connector.exchange.wanting import Wanting
from tests.exchange.machine import ExchangeMachine
from tests.exchange.toy_pool import Violation

WALK = settings(
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_no_content_is_wrong_no_block_has_two_owners_and_every_want_ends() -> None:
    run_state_machine_as_test(ExchangeMachine, settings=WALK)


class WantingWithoutQuarantine(Wanting):
    """Gives the blocks of an ended want back at once, as if no write could be on its way."""

    def _hold(self, want: OwnWant, now: Seconds) -> None:
        del now
        self._release(want)


class ExchangeWithoutQuarantine(Exchange):
    _wanting_type = WantingWithoutQuarantine


class MachineWithoutQuarantine(ExchangeMachine):
    exchange_type: ClassVar[type[Exchange]] = ExchangeWithoutQuarantine


def test_without_the_quarantine_the_same_walk_finds_a_write_into_a_foreign_block() -> None:
    walk = settings(WALK, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(Violation, match="a write lands in block"):
        run_state_machine_as_test(MachineWithoutQuarantine, settings=walk)
