# SPDX-License-Identifier: Apache-2.0
"""What a frozen writer still writes when it thaws lands in no block that was given to others: byte by byte."""

import pytest

from e2e.engine.environment import engine_environment
from tests.transfer.late_writes import BLOCKS, WANTED
from tests.transfer.test_nixl import facts_of

pytestmark = pytest.mark.skipif(
    not engine_environment().complete, reason="NIXL is in the engine environment: `python -m e2e.engine build` (6 GB)"
)
MODULE = "tests.transfer.late_writes"


def test_late_writes_land_only_in_blocks_that_nobody_else_was_given() -> None:
    facts = facts_of("safe", module=MODULE)
    assert (facts["ended"], facts["written_late"]) == ("peer_silent", True)
    assert facts["given_to_others"] == BLOCKS - WANTED
    assert facts["foreign_bytes"] == 0
    assert facts["given_back"] == BLOCKS
    assert facts["outcomes"] == ["written", "written"]


def test_without_the_quarantine_the_same_check_finds_bytes_in_others_blocks() -> None:
    facts = facts_of("unsafe", module=MODULE)
    assert facts["given_to_others"] == BLOCKS
    assert facts["foreign_bytes"] > 0
