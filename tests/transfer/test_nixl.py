# SPDX-License-Identifier: Apache-2.0
"""The writer over real NIXL and UCX, between processes, with memory of the CPU."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.environment import engine_environment

pytestmark = pytest.mark.skipif(
    not engine_environment().complete, reason="NIXL is in the engine environment: `python -m e2e.engine build` (6 GB)"
)
ROOT = Path(__file__).parents[2]
ALL_30 = list(range(30))


def facts_of(
    scenario: str, transports: str = "tcp,self", *, module: str = "tests.transfer.scenarios"
) -> dict[str, Any]:
    """Run a scenario of a module with UCX's `transports`, and return what it found."""
    ran = subprocess.run(
        [engine_environment().python, "-m", module, scenario],
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": f"{ROOT}:{ROOT / 'connector' / 'src'}", "UCX_TLS": transports, "NIXL_LOG_LEVEL": "FATAL"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    facts = json.loads(ran.stdout.splitlines()[-1])
    assert isinstance(facts, dict)
    return facts


@pytest.mark.parametrize("transports", ["tcp,self", "tcp,self,sm,cma"])
@pytest.mark.parametrize("scenario", ["contiguous", "scattered"])
def test_a_write_lands_in_its_blocks_and_nowhere_else(scenario: str, transports: str) -> None:
    assert facts_of(scenario, transports) == {
        "ended": [1, "written", ALL_30],
        "received": ALL_30,
        "wrong_bytes": 0,
        "counts": [0, 0],
        "pieces": 1,
        "closed": True,
    }


def test_a_write_in_pieces_is_received_whole() -> None:
    facts = facts_of("in_pieces")

    assert facts["pieces"] == 5
    assert (facts["ended"], facts["received"], facts["wrong_bytes"]) == ([1, "written", ALL_30], ALL_30, 0)


def test_what_a_step_computes_is_written_as_it_is_after_the_step() -> None:
    assert facts_of("after_the_step") == {"first": [[2, "written", [0]]], "order": [2, 1], "block_5": [99]}


def test_after_its_deadline_nothing_is_written() -> None:
    assert facts_of("past_the_deadline") == {"ended": [1, "not_posted", []], "early": False, "wrong_bytes": 0}


def test_a_peer_killed_before_a_write_is_lost_and_another_is_written() -> None:
    assert facts_of("killed_before_a_write") == {
        "ended": {"1": "written", "2": "uncertain", "3": "written"},
        "lost": ["target"],
        "wrong_bytes": 0,
        "closed": True,
    }


def test_a_peer_killed_under_a_write_is_lost_and_the_write_uncertain() -> None:
    assert facts_of("killed_under_a_write") == {
        "running": True,
        "ended": "uncertain",
        "lost": ["target"],
        "closed": True,
    }


def test_a_write_to_a_dropped_peer_still_lands_in_part_so_it_is_uncertain_and_the_peer_can_come_back() -> None:
    facts = facts_of("dropped_under_a_write")

    assert facts["ended"] == "uncertain"
    assert facts["landed_after_the_drop"] > 0
    assert (facts["again"], facts["received"]) == ([3, "written", [0]], [0])


def test_a_new_incarnation_is_written_and_a_dropped_one_is_not() -> None:
    assert facts_of("another_incarnation") == {
        "ended": {"1": "written", "2": "not_posted", "3": "written"},
        "wrong_bytes": 0,
    }


def test_notifications_that_mean_nothing_are_counted_and_the_good_one_is_taken() -> None:
    assert facts_of("garbage") == {"received": [0, 1], "malformed": 4}


def test_peers_that_do_not_fit_are_refused_and_the_right_one_still_works() -> None:
    assert facts_of("refused_peers") == {
        "why": [
            "region 0",
            "the metadata is of agent 'target/0', not of 'x/0'",
            "the peer's blocks are not in the memory that it registered",
        ],
        "wrong_bytes": 0,
    }


def test_64_peers_get_what_each_was_to_get() -> None:
    assert facts_of("many_peers") == {"outcomes": ["written"], "received": 64, "right": 64, "closed": 65}


def test_shutdown_is_bounded_when_a_peer_does_not_answer() -> None:
    assert facts_of("shutdown_with_a_stopped_peer") == {"closed": True, "ended": "uncertain"}


def test_a_backend_that_nixl_lacks_is_named() -> None:
    assert facts_of("a_backend_that_is_not_there") == {"error": "NIXL has none of the backends NOSUCH"}
