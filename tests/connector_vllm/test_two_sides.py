# SPDX-License-Identifier: Apache-2.0
"""Two connectors exchange over NIXL and sockets as in engines, but without a model: in the engine environment's own Python."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from e2e.engine.environment import engine_environment
from tests.connector_vllm.test_adapter import CONNECTOR

SCRIPT = Path(__file__).with_name("inside_two_sides.py")
CHECKS = (
    "what_a_draining_engine_holds_is_at_its_successor_before_it_says_that_it_is_drained",
    "an_engine_that_its_hook_tells_to_end_hands_over_to_its_heir_though_its_table_stays_as_it_is",
    "what_moves_is_published_by_the_successor_as_if_it_had_been_computed_there",
    "an_engine_that_ends_is_done_when_both_sides_have_all_their_blocks_back",
    "what_was_begun_with_a_peer_that_parts_is_ended_and_both_begin_anew_when_it_returns",
    "a_peer_that_has_parted_is_left_when_nothing_is_under_way_and_joins_anew_when_it_returns",
    "a_peer_that_has_parted_is_not_left_while_it_may_still_write",
    "what_goes_between_two_engines_is_counted_by_pod_for_as_long_as_they_are_peers_and_a_while_more",
    "a_request_that_came_while_a_long_step_ran_is_known_before_anybody_hears_that_nobody_computes",
    "blocks_are_kept_from_a_peer_that_parted_without_a_word_until_its_pod_is_said_to_be_gone",
)
TOGETHER = CHECKS[6:8]
"""Run by one process, as importing vLLM takes longer than they do."""


@cache
def _run(checks: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    environment = engine_environment()
    if not environment.complete:
        pytest.skip("the engine environment isn't built: run `make prepare`")
    return subprocess.run(
        [str(environment.python), str(SCRIPT), *checks],
        # Other interfaces come and go with the clusters that other tests start.
        env={**os.environ, "PYTHONPATH": str(CONNECTOR), "VLLM_LOGGING_LEVEL": "ERROR", "UCX_NET_DEVICES": "lo"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("check", CHECKS)
def test_between_two_sides(check: str) -> None:
    run = _run(TOGETHER if check in TOGETHER else (check,))
    assert f"passed {check}" in run.stdout, run.stderr[-4000:]
