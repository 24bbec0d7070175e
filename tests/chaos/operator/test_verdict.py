# SPDX-License-Identifier: Apache-2.0
"""What a run with faults of the operator comes to, and what makes it fail."""

from dataclasses import replace

import pytest

from e2e.chaos.operator.proxy import Asked
from e2e.chaos.operator.run import FAULTS, Plan
from e2e.chaos.operator.verdict import Fault, Run
from e2e.chaos.operator.writers import unleased

WELL = Fault("leader_killed", 3.0, 2.5, None, None, [], [], [])
RUN = Run(faults=[WELL, replace(WELL, name="throttled", settled_after=7.25)], wanted=2, unleased=[], anew=0)


def write(at: float, by: str = "first", path: str = "/api/v1/namespaces/a/pods/b") -> Asked:
    return Asked(at, "PATCH", path, by, 200)


def renewal(at: float, by: str = "first", status: int = 200) -> Asked:
    return Asked(at, "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/tandem", by, status)


def test_a_run_in_which_all_was_as_before_after_each_fault_is_well_and_says_how_long_that_took() -> None:
    assert list(RUN.failures()) == []
    figures = RUN.figures()
    assert "figure chaos_operator_faults 2 faults" in figures
    assert "figure chaos_operator_longest_convergence 7.2 s" in figures
    assert WELL.said() == "leader_killed took 3.0 s, settled after 2.5 s"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (replace(WELL, settled_after=None, unsettled="qwen is not ready"), "leader_killed: qwen is not ready"),
        (replace(WELL, problem="no leader"), "leader_killed: no leader"),
        (replace(WELL, ghosts=["a is told of b"]), "leader_killed: ghosts: a is told of b"),
        (replace(WELL, lost=["qwen"]), "leader_killed: lost: qwen"),
        (
            replace(WELL, restarted=["a", "b", "c", "d"]),
            "leader_killed: engines restarted without cause: a, b, c and 1 more",
        ),
    ],
)
def test_whatever_must_not_be_makes_the_run_fail(fault: Fault, said: str) -> None:
    assert list(replace(RUN, faults=[fault, WELL]).failures()) == [said]


def test_fewer_faults_than_wanted_and_a_write_without_a_lease_make_it_fail_too() -> None:
    assert list(replace(RUN, wanted=25).failures()) == ["only 2 faults of 25"]
    (said,) = replace(RUN, unleased=[write(1.0)]).failures()
    assert said == "1 writes without a Lease: PATCH /api/v1/namespaces/a/pods/b by first"


def test_a_write_has_a_lease_for_as_long_as_one_holds_after_it_was_renewed() -> None:
    assert unleased([renewal(1.0), write(3.9)], 3.0) == []
    assert unleased([write(4.1), renewal(1.0)], 3.0) == [write(4.1)]
    assert unleased([renewal(1.0), renewal(3.0, status=409), write(4.1)], 3.0) == [write(4.1)]
    assert unleased([renewal(1.0, by="second"), write(2.0)], 3.0) == [write(2.0)]
    assert unleased([Asked(9.0, "GET", "/api/v1/pods", "first", 200)], 3.0) == []


def test_a_process_that_is_started_anew_has_nothing_of_the_former_ones_lease() -> None:
    assert unleased([renewal(1.0), write(3.0)], 3.0, [("first", 2.0)]) == [write(3.0)]
    assert unleased([renewal(1.0), write(3.0)], 3.0, [("second", 2.0)]) == []


def test_each_kind_of_fault_comes_once_before_one_comes_again_and_a_seed_says_in_which_order() -> None:
    assert len(FAULTS) >= 25
    course = Plan(seed=7, faults=len(FAULTS) + 5).course()
    assert sorted(course[: len(FAULTS)]) == sorted(FAULTS)
    assert len(course) == len(FAULTS) + 5
    assert course == Plan(seed=7, faults=len(FAULTS) + 5).course()
    assert course != Plan(seed=8, faults=len(FAULTS) + 5).course()
    assert Plan(seed=7, only="slow,leader_killed").course() == ["slow", "leader_killed"]
    assert all(inject.__doc__ for inject in FAULTS.values())
