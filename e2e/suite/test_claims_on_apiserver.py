# SPDX-License-Identifier: Apache-2.0
"""Devices by DRA claims, which a real API server, controllers and scheduler make, allocate and place. No driver runs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.cluster.local.simulated import NODE_PREFIX
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, engines, wait_for

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

GPUS, EFAS = "gpus.example.com", "efas.example.com"
TEMPLATE = "gpus-and-efas"


def a_class(driver: str) -> dict[str, Any]:
    chosen = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [chosen]},
    }


def a_slice(node: str, driver: str, count: int) -> dict[str, Any]:
    """What a driver says of a node."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"device-{number}"} for number in range(count)],
        },
    }


@pytest.fixture
def drivers(kubectl: Kubectl) -> Iterator[None]:
    """Two nodes with the devices of a p5en.48xlarge, and the template that takes all of one."""
    nodes = [f"{NODE_PREFIX}{number}" for number in (0, 1)]
    made = [
        *(a_class(driver) for driver in (GPUS, EFAS)),
        *(a_slice(node, driver, count) for node in nodes for driver, count in ((GPUS, 8), (EFAS, 16))),
    ]
    requests = [
        {"name": name, "exactly": {"deviceClassName": driver, "count": count}}
        for name, driver, count in (("gpus", GPUS, 8), ("efas", EFAS, 16))
    ]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": TEMPLATE},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    kubectl.apply(*made, template)
    try:
        yield
    finally:
        for each in made:
            kubectl.delete(each["kind"].lower(), each["metadata"]["name"])


@pytest.mark.usefixtures("drivers")
def test_each_engine_gets_a_claim_of_its_own_and_a_node_that_has_its_devices(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    claims = [{"name": "devices", "resourceClaimTemplateName": TEMPLATE}]
    kubectl.apply(a_resource(accelerator={"instanceType": "p5en.48xlarge", "resourceClaims": claims}))
    wait_for(kubectl, "Ready")

    pods = engines(kubectl)
    assert len(pods) == 2
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["claims"] == [{"name": "devices"}]
        assert not {name for name in container["resources"].get("limits", {}) if "/" in name}, "no plugin is asked"
    allocated = {each["metadata"]["name"]: devices(each) for each in kubectl.list("resourceclaim")}
    assert sorted(allocated.values()) == [(f"{NODE_PREFIX}0", 8, 16), (f"{NODE_PREFIX}1", 8, 16)]
    named = {pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]: pod["spec"]["nodeName"] for pod in pods}
    assert named == {name: node for name, (node, _, _) in allocated.items()}


def devices(claim: Mapping[str, Any]) -> tuple[str, int, int]:
    """Of an allocated claim: the node, how many GPUs and how many EFA devices."""
    results = claim["status"]["allocation"]["devices"]["results"]
    (node,) = {each["pool"] for each in results}
    drivers = [each["driver"] for each in results]
    return node, drivers.count(GPUS), drivers.count(EFAS)


@pytest.mark.usefixtures("drivers")
def test_claims_that_no_node_can_meet_leave_the_engine_unschedulable_in_the_schedulers_words(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    claims = [{"name": "devices", "resourceClaimTemplateName": TEMPLATE}]
    decode = {"replicas": 2, "parallelism": {"tensor": 8}}
    kubectl.apply(a_resource(accelerator={"instanceType": "p5en.48xlarge", "resourceClaims": claims}, decode=decode))
    wait_for(kubectl, "Degraded", reason="Unschedulable")
    assert "cannot allocate all claims" in json.dumps(kubectl.get("disaggregatedinference", "qwen"))
