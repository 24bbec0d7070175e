# SPDX-License-Identifier: Apache-2.0
"""The front door's objects on a real API server, with real Deployments and EndpointSlices and simulated nodes."""

import json
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, engines, hold, wait_for
from tandem_operator.api.names import FRONT_DOOR_ROLE, RESOURCE_LABEL, ROLE_LABEL

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

OF_IT = f"{RESOURCE_LABEL}=qwen,{ROLE_LABEL}={FRONT_DOOR_ROLE}"


def edit(kubectl: Kubectl, **front_door: Any) -> None:
    kubectl.run("patch", "pdi", "qwen", "--type=merge", "-p", json.dumps({"spec": {"frontDoor": front_door}}))


def names(kubectl: Kubectl, kinds: str, selector: str = OF_IT) -> set[str]:
    return {f"{each['kind']}/{each['metadata']['name']}" for each in kubectl.list(kinds, selector)}


def uids(kubectl: Kubectl) -> set[str]:
    return {each["metadata"]["uid"] for each in engines(kubectl)}


def led_to(kubectl: Kubectl, service: str) -> set[str]:
    """The pods that a Service leads to, as gateways read it."""
    slices = kubectl.list("endpointslices", f"kubernetes.io/service-name={service}")
    endpoints = [endpoint for each in slices for endpoint in each.get("endpoints") or ()]
    return {each["targetRef"]["name"] for each in endpoints if each["conditions"]["ready"]}


def test_switched_off_it_leaves_two_services_that_lead_to_the_engines_which_take_turns(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource(decode={"parallelism": {"tensor": 8}, "replicas": 2}))
    wait_for(kubectl, "Ready")
    kinds = "deployments,services,serviceaccounts,roles,rolebindings"
    before = names(kubectl, kinds)
    assert {"Deployment/qwen", "Service/qwen"} < before

    edit(kubectl, enabled=False)
    left = {"Service/qwen", "Service/qwen-routable"}
    wait_until("the two services", lambda: names(kubectl, kinds) == left, timeout=30)
    wait_for(kubectl, "Ready")
    both = {"qwen-decode-0", "qwen-decode-1"}
    for service in ("qwen", "qwen-routable"):
        wait_until(f"{service} to lead to both", lambda: led_to(kubectl, service) == both, timeout=30)  # noqa: B023 -- before the next
    hold(kubectl, "qwen-decode-1", "tandem.dev/held-by-a-test")
    kubectl.run("delete", "pod", "qwen-decode-1", "--wait=false")
    wait_until("the other one alone", lambda: led_to(kubectl, "qwen-routable") == {"qwen-decode-0"}, timeout=30)
    hold(kubectl, "qwen-decode-1")
    wait_until("both again", lambda: led_to(kubectl, "qwen-routable") == both, timeout=60)

    edit(kubectl, enabled=True)
    wait_until("all that there was", lambda: names(kubectl, kinds) == before, timeout=30)


def test_its_policy_and_replicas_are_changed_beside_engines_that_stay(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    routers, stay = names(kubectl, "pods"), uids(kubectl)
    assert len(routers) == 1

    edit(kubectl, policy="round_robin", replicas=2)
    wait_until("two others", lambda: len(now := names(kubectl, "pods")) == 2 and not now & routers, timeout=60)
    for pod in kubectl.list("pods", OF_IT):
        arguments = pod["spec"]["containers"][0]["args"]
        assert arguments[arguments.index("--policy") + 1] == "round_robin"
    assert uids(kubectl) == stay
