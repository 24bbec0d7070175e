# SPDX-License-Identifier: Apache-2.0
"""Some faults of `make chaos-operator`, on a control plane of their own: what is killed here may be used by no other test."""

import os
import sys
from pathlib import Path

import pytest

from e2e.chaos.operator.run import Plan, chaos

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

SHORT = (
    "leader_killed",
    "leader_frozen_in_a_look",
    "etcd_compacted_while_watches_are_away",
    "half_answered_50x",
    "etcd_killed",
    "tables_taken_away",
)


@pytest.mark.skipif(sys.platform != "linux", reason="the local control plane runs on Linux only")
@pytest.mark.skipif(
    os.environ.get("CLUSTER", "local") not in {"", "local"}, reason="it brings its own, which CLUSTER does not name"
)
def test_after_each_fault_all_is_as_before_with_no_ghost_nothing_lost_and_no_engine_restarted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    plan = Plan(seed=1, only=",".join(SHORT), slack=4.0)
    seen = chaos(plan, folder, tmp_path / "kept", print)
    assert list(seen.failures()) == []
    assert len(seen.faults) == len(SHORT)
