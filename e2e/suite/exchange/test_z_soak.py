# SPDX-License-Identifier: Apache-2.0
"""A minute of `make soak`: conversations and random faults, prefill killed among them, and nothing wrong, hung or leaked."""

import asyncio
from pathlib import Path

from e2e.engine.environment import build_environment
from e2e.soak.run import Plan, soak
from e2e.soak.tally import End, Tally

A_MINUTE = Plan(seed=9, minutes=0.9, prefill=1, decode=1, clients=4, scripts=3, pause=2.0, epoch=60.0)
"""With this seed prefill is killed in the first seconds."""


def test_a_minute_of_faults_leaves_nothing_wrong_hung_or_held(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "events.log")
    asyncio.run(soak(A_MINUTE, build_environment(), tally, tmp_path, tmp_path))
    assert tally.good, tally.figures()
    assert tally.ends[End.RIGHT] > 20
    assert tally.faults["kill_prefill"] > 0
    assert len(tally.faults) > 5
