# SPDX-License-Identifier: Apache-2.0
"""The changes of `make chaos-topology` on a real API server with its own controllers and simulated nodes.

Each can be made, and at the end all tables are what the plan says.
"""

import asyncio
import time
from itertools import count

import pytest

from e2e.chaos.topology.carry_out import Carrier
from e2e.chaos.topology.changes import Bounds, Change, Chooser, Kind
from e2e.chaos.topology.changing import Changing
from e2e.chaos.topology.pods import Pods
from e2e.chaos.topology.tables import unwritten
from e2e.cluster.interface import GaveUpError
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, wait_for
from tandem_connector.contract.types import Role
from tandem_operator.api.names import PEERS_ANNOTATION

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.long,
    pytest.mark.timeout(900),
]  # The first test may have to build Kubernetes.

TWO_AT_MOST = {"parallelism": {"tensor": 4}, "replicas": 2, "autoscaling": {"minReplicas": 1, "maxReplicas": 2}}
TWO = Bounds(role=2, total=4)
WITHIN = 300.0
"""Seconds."""


async def each_once(changing: Changing, roles: int) -> None:
    """Until every kind of change was made in so many roles, or one could not be made."""
    end = time.monotonic() + WITHIN
    while len({(change.role, change.kind) for change in changing.made}) < roles * len(Kind) and not changing.undone:
        assert time.monotonic() < end, changing.made
        await changing.look()
        await asyncio.sleep(0.2)


def is_down(change: Change | None) -> bool:
    """Whether it needs the operator, which passes a scaler's number on to its set."""
    return change is not None and change.kind is Kind.DOWN


def test_every_planned_way_of_coming_and_going_can_be_gone_and_leaves_the_tables_as_the_plan_says(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource(prefill=TWO_AT_MOST, decode=TWO_AT_MOST))
    wait_for(kubectl, "Ready")
    with Pods(kubectl, "qwen") as pods:
        wait_until("four engines to be seen", lambda: sum(pod.ready for pod in pods.seen()) == 4, 60)
        changing = Changing(pods, Carrier(kubectl, "qwen"), Chooser(1), TWO, print)
        asyncio.run(each_once(changing, len(Role)))
        removals = sum(change.kind.removes for change in changing.made)
        try:
            wait_until(
                "what was removed to be gone", lambda: sum(life.gone is not None for life in pods.lives) == removals, 60
            )
        except GaveUpError:
            pytest.fail(f"{removals} removals, and these lives: {pods.lives}")
    assert changing.undone == []
    wait_until("all tables to be what the plan says", lambda: unwritten(kubectl, "qwen") is None, 60)

    replica.stop()
    kubectl.run("annotate", "pod", "qwen-decode-0", f"{PEERS_ANNOTATION}-")
    assert "qwen-decode-0" in (unwritten(kubectl, "qwen") or "")


def test_a_change_of_which_nothing_comes_is_told_as_undone(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource(prefill=TWO_AT_MOST, decode=TWO_AT_MOST))
    wait_for(kubectl, "Ready")
    replica.stop()
    with Pods(kubectl, "qwen") as pods:
        wait_until("four engines to be seen", lambda: sum(pod.ready for pod in pods.seen()) == 4, 60)
        seed = next(seed for seed in count() if is_down(Chooser(seed).next(pods.seen(), TWO)))
        changing = Changing(pods, Carrier(kubectl, "qwen"), Chooser(seed), TWO, print)
        asyncio.run(changing.look())
    assert changing.made == []
    assert [each.partition(": ")[2] for each in changing.undone] == ["nothing came of it"]
