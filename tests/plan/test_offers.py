# SPDX-License-Identifier: Apache-2.0
"""What no node offers, told apart from what is only taken."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.contract.types import Role
from tandem_operator.api.status import ConditionType
from tandem_operator.api.values import amount_of
from tandem_operator.plan.offers import wanted_labels
from tandem_operator.plan.outcome import outcome
from tests.builders import DEFAULTS, NOW, TEMPLATE, a_node, a_pod, a_resource, observed
from tests.builders.pods import PodBuilder

D = Role.DECODE
LABELS = "node.kubernetes.io/instance-type=p5en.48xlarge"
ALL = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "16", "hugepages-2Mi": "42242Mi", "cpu": "192"}


def a_waiting_pod(role: Role = Role.DECODE, **limits: str) -> PodBuilder:
    """No node was found for it."""
    wanted = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "16", "cpu": "500", **limits}
    manifest = (
        a_pod(role).of_template(TEMPLATE).with_condition("PodScheduled", "False", "0/9 nodes are available").build()
    )
    manifest["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": "p5en.48xlarge"}
    manifest["spec"]["containers"][0]["resources"] = {"limits": wanted}
    return PodBuilder(manifest)


def degraded(*nodes: dict[str, str], pods: tuple[PodBuilder, ...] = (a_waiting_pod(),)) -> tuple[str, str]:
    """Reason and message, with nodes that have so much allocatable."""
    offering = []
    for number, allocatable in enumerate(nodes):
        manifest = a_node(f"node-{number}").build()
        manifest["status"]["allocatable"] = allocatable
        offering.append(manifest)
    resource = a_resource().on("p5en.48xlarge").with_tensor(8)
    seen = replace(observed(resource, pods), offered={LABELS: tuple(offering)})
    status = outcome(seen, DEFAULTS, NOW).status
    (found,) = [each for each in status.conditions if each.type == ConditionType.DEGRADED]
    return found.reason, found.message


def test_devices_that_are_only_taken_are_waited_for() -> None:
    assert degraded(ALL) == ("Unschedulable", "pod qwen-decode-0: 0/9 nodes are available")


def test_a_device_that_no_node_has_any_of_lacks_its_plugin() -> None:
    for missing, plugin in (
        ("vpc.amazonaws.com/efa", "the EFA device plugin"),
        ("nvidia.com/gpu", "the NVIDIA device"),
    ):
        reason, message = degraded({**ALL, missing: "0"}, {each: ALL[each] for each in ALL if each != missing})
        assert reason == "DevicePluginMissing"
        assert message.startswith(f"none of the 2 nodes with {LABELS} offers {missing}: install {plugin}")


def test_fewer_devices_than_one_pod_asks_for_are_not_waited_for() -> None:
    reason, message = degraded({**ALL, "vpc.amazonaws.com/efa": "4"}, {**ALL, "vpc.amazonaws.com/efa": "1"})
    assert reason == "DevicesNotOffered"
    assert "ask for 16 vpc.amazonaws.com/efa and none of the 2 nodes" in message
    assert "offers more than 4:" in message


def test_one_node_with_enough_is_enough() -> None:
    assert degraded({}, ALL)[0] == "Unschedulable"


def test_huge_pages_that_no_node_has_set_aside_come_with_the_remedy() -> None:
    reason, message = degraded({**ALL, "hugepages-2Mi": "1Gi"}, pods=(a_waiting_pod(D, **{"hugepages-2Mi": "5120Mi"}),))
    assert reason == "HugePagesNotOffered"
    assert "ask for 5120Mi of huge pages and none" in message
    assert "offers more than 1024Mi: remove spec.accelerator.hugepages2Mi" in message


def test_what_all_pods_lack_is_said_once() -> None:
    pods = (a_waiting_pod(), a_waiting_pod(Role.PREFILL))
    message = degraded({**ALL, "vpc.amazonaws.com/efa": "0"}, pods=pods)[1]
    assert message.count("install the EFA device plugin") == 1


def test_without_any_such_node_the_schedulers_words_stand() -> None:
    assert degraded()[0] == "Unschedulable"


@pytest.mark.parametrize(
    ("pod", "selector"),
    [
        (a_waiting_pod(), LABELS),
        (a_pod(), None),
        (a_pod().with_condition("PodScheduled", "True"), None),
        (a_pod().with_condition("PodScheduled", "False", "no node"), None),
    ],
)
def test_nodes_are_asked_for_only_for_a_pod_without_one_that_says_which(pod: PodBuilder, selector: str | None) -> None:
    assert wanted_labels(pod.build()) == selector


@given(number=st.integers(0, 10**6), unit=st.sampled_from(["", "k", "Ki", "Mi", "Gi", "m", "e3"]))
def test_a_quantity_is_as_much_as_it_says(number: int, unit: str) -> None:
    factors: dict[str, Any] = {
        "": 1,
        "k": 1000,
        "Ki": 1024,
        "Mi": 2**20,
        "Gi": 2**30,
        "m": Decimal("0.001"),
        "e3": 1000,
    }
    assert amount_of(f"{number}{unit}") == number * factors[unit]


@pytest.mark.parametrize("nonsense", ["", "many", "1Zi", "--1"])
def test_what_is_no_quantity_is_nothing(nonsense: str) -> None:
    assert amount_of(nonsense) == 0
