# SPDX-License-Identifier: Apache-2.0
"""Scaling on a real API server with its controllers: by `kubectl scale`, and by the HorizontalPodAutoscaler's own controller."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.metrics_stub import METRIC, external_metric
from e2e.suite.operator_process import OperatorProcess, operator
from e2e.suite.served import a_resource, condition, engines, wait_for
from tandem_operator.api.names import API_VERSION, KIND, RESOURCE_LABEL, ROLE_LABEL, SCALER_KIND, SCALER_PLURAL

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

TWO_GPUS = {"parallelism": {"tensor": 2}}


def resource(*, prefill: Mapping[str, Any] = {}, decode: Mapping[str, Any] = {}, **spec: Any) -> dict[str, Any]:
    """Engines on two GPUs each, their numbers left open."""
    return a_resource(prefill={**TWO_GPUS, **prefill}, decode={**TWO_GPUS, **decode}, **spec)


def scaler(kubectl: Kubectl, role: str) -> Mapping[str, Any]:
    return kubectl.get(SCALER_KIND.lower(), f"qwen-{role}") or {}


def scale(kubectl: Kubectl, role: str, replicas: int) -> None:
    kubectl.run("scale", f"{SCALER_KIND.lower()}/qwen-{role}", f"--replicas={replicas}")


def of_role(kubectl: Kubectl, role: str) -> list[Mapping[str, Any]]:
    return [each for each in engines(kubectl) if each["metadata"]["labels"][ROLE_LABEL] == role]


def count(kubectl: Kubectl, role: str) -> int:
    return len(of_role(kubectl, role))


def wait_for_engines(kubectl: Kubectl, *, prefill: int, decode: int, timeout: float = 60) -> None:
    wait_until(
        f"{prefill} prefill and {decode} decode engines",
        lambda: (count(kubectl, "prefill"), count(kubectl, "decode")) == (prefill, decode),
        timeout,
    )


def wait_for_scalers(kubectl: Kubectl) -> None:
    wait_until("scalers", lambda: all(scaler(kubectl, role).get("status") for role in ("prefill", "decode")), 30)


def limited(found: Mapping[str, Any]) -> tuple[str, str]:
    """Status and reason of a scaler's condition."""
    (only,) = found["status"]["conditions"]
    return only["status"], only["reason"]


def test_kubectl_scale_moves_one_role_and_writes_nothing_else(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(resource(decode={"replicas": 1}))
    wait_for(kubectl, "Ready")
    assert scaler(kubectl, "decode") == {}, "its number is fixed"
    scale(kubectl, "prefill", 3)
    wait_for_engines(kubectl, prefill=3, decode=1)
    wait_for(kubectl, "Ready")

    path = f"/apis/{API_VERSION}/namespaces/{kubectl.namespace}/{SCALER_PLURAL}/qwen-prefill/scale"
    wait_until("three replicas", lambda: json.loads(kubectl.run("get", "--raw", path))["status"]["replicas"] == 3, 30)
    seen = json.loads(kubectl.run("get", "--raw", path))
    assert seen["spec"]["replicas"] == 3
    selected = {pod["metadata"]["name"] for pod in kubectl.list("pod", seen["status"]["selector"])}
    assert selected == {f"qwen-prefill-{number}" for number in range(3)}
    assert (kubectl.get(KIND.lower(), "qwen") or {})["metadata"]["generation"] == 1


def test_the_number_belongs_to_whoever_scales_also_after_the_operator_starts_anew(
    kubectl: Kubectl, kubeconfig: Path
) -> None:
    kubectl.apply(resource(decode={"replicas": 1}))
    with operator(kubeconfig, kubectl.namespace, "before"):
        wait_for(kubectl, "Ready")
        scale(kubectl, "prefill", 2)
        wait_for_engines(kubectl, prefill=2, decode=1)
    kubectl.run("label", SCALER_KIND.lower(), "qwen-prefill", f"{RESOURCE_LABEL}-")
    with operator(kubeconfig, kubectl.namespace, "after") as after:
        wait_until("the label", lambda: RESOURCE_LABEL in scaler(kubectl, "prefill")["metadata"]["labels"], 30)
        done = {"outcome": "done"}
        wait_until("a look", lambda: after.metric("tandem_reconcile_duration_seconds_count", **done) >= 1, timeout=30)
        assert scaler(kubectl, "prefill")["spec"] == {"replicas": 2}
    fields = json.loads(kubectl.run("get", SCALER_KIND.lower(), "qwen-prefill", "-o", "json", "--show-managed-fields"))[
        "metadata"
    ]["managedFields"]
    owners = {each["manager"] for each in fields if "f:replicas" in each["fieldsV1"].get("f:spec", {})}
    assert owners
    assert not any(owner.startswith("tandem") for owner in owners)
    assert "tandem" in {each["manager"] for each in fields if each["operation"] == "Apply"}


def test_both_roles_go_to_zero_and_come_back(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(resource(scaling={"ratio": {"min": "1/4", "max": "1/1"}}))
    wait_for(kubectl, "Ready")
    scale(kubectl, "prefill", 0)
    wait_for(kubectl, "ScalingLimited", reason="RatioBounds")
    assert count(kubectl, "prefill") == 1, "decode has an engine, so prefill keeps one"
    scale(kubectl, "decode", 0)
    wait_for_engines(kubectl, prefill=0, decode=0)
    wait_for(kubectl, "Available", "False", reason="ScaledToZero")
    scale(kubectl, "decode", 2)
    wait_for_engines(kubectl, prefill=1, decode=2)
    wait_for(kubectl, "Available")


def test_a_role_follows_the_other_within_the_ratio(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(resource(scaling={"ratio": {"min": "1/2"}}))
    wait_for(kubectl, "Ready")
    scale(kubectl, "decode", 4)
    wait_for_engines(kubectl, prefill=2, decode=4)
    wait_for(kubectl, "ScalingLimited", reason="RatioBounds")
    assert limited(scaler(kubectl, "prefill")) == ("True", "RatioBounds")
    assert limited(scaler(kubectl, "decode")) == ("False", "AsAsked")
    scale(kubectl, "decode", 1)
    wait_for_engines(kubectl, prefill=1, decode=1)
    wait_for(kubectl, "ScalingLimited", "False")


def test_the_budget_is_never_exceeded_and_says_so(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(resource(scaling={"gpuBudget": 8}))
    wait_for(kubectl, "Ready")
    scale(kubectl, "prefill", 9)
    wait_for_engines(kubectl, prefill=3, decode=1)
    wait_for(kubectl, "ScalingLimited", reason="GpuBudget")
    assert "raise it, or ask for fewer" in condition(kubectl, "ScalingLimited")["message"]
    assert limited(scaler(kubectl, "prefill")) == ("True", "GpuBudget")


def hold(kubectl: Kubectl, pods: list[Mapping[str, Any]], *finalizers: str) -> None:
    """Have the pods stay while they end, or go."""
    patch = json.dumps({"metadata": {"finalizers": list(finalizers)}})
    for pod in pods:
        kubectl.run("patch", "pod", pod["metadata"]["name"], "--type=merge", f"--patch={patch}")


def test_what_grows_waits_for_the_gpus_of_engines_that_are_ending(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(resource(scaling={"gpuBudget": 8}))
    wait_for(kubectl, "Ready")
    scale(kubectl, "prefill", 3)
    wait_for_engines(kubectl, prefill=3, decode=1)
    pods = of_role(kubectl, "prefill")
    hold(kubectl, pods, "example.com/held")
    scale(kubectl, "prefill", 1)
    scale(kubectl, "decode", 3)

    def is_seen() -> bool:
        found = scaler(kubectl, "decode")
        ending = [pod for pod in of_role(kubectl, "prefill") if "deletionTimestamp" in pod["metadata"]]
        return len(ending) == 2 and found["status"]["observedGeneration"] == found["metadata"]["generation"]

    wait_until("the operator to have seen it", is_seen, timeout=30)
    assert (kubectl.get("statefulset", "qwen-decode") or {})["spec"]["replicas"] == 1
    assert condition(kubectl, "Progressing")["reason"] == "ScalingDown"
    hold(kubectl, pods)
    wait_for_engines(kubectl, prefill=1, decode=3)
    wait_for(kubectl, "Ready")


def test_a_number_in_the_spec_takes_the_scaler_away_and_leaving_it_open_brings_it_back_with_that_number(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(resource())
    wait_for_scalers(kubectl)
    kubectl.apply(resource(prefill={"replicas": 2}))
    wait_for_engines(kubectl, prefill=2, decode=1)
    wait_until("the scaler to go", lambda: scaler(kubectl, "prefill") == {}, timeout=30)
    kubectl.apply(resource())
    wait_until("the scaler to come", lambda: scaler(kubectl, "prefill").get("spec") == {"replicas": 2}, timeout=30)
    wait_for(kubectl, "Ready")
    assert count(kubectl, "prefill") == 2


def autoscaler(role: str) -> dict[str, Any]:
    """One engine for every ten waiting requests, down again at once."""
    metric = {"metric": {"name": METRIC}, "target": {"type": "AverageValue", "averageValue": "10"}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": f"qwen-{role}"},
        "spec": {
            "scaleTargetRef": {"apiVersion": API_VERSION, "kind": SCALER_KIND, "name": f"qwen-{role}"},
            "minReplicas": 1,
            "maxReplicas": 6,
            "metrics": [{"type": "External", "external": metric}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


def says(kubectl: Kubectl, kind: str) -> tuple[str, str]:
    """Status and reason of a condition of the HorizontalPodAutoscaler."""
    found = (kubectl.get("hpa", "qwen-prefill") or {}).get("status", {}).get("conditions", ())
    return next(((each["status"], each["reason"]) for each in found if each["type"] == kind), ("", ""))


def test_a_horizontal_pod_autoscaler_scales_prefill_up_and_down_and_is_not_contradicted(
    kubectl: Kubectl, replica: OperatorProcess, tmp_path: Path
) -> None:
    # Its controller looks every 15 seconds.
    patience = 90
    kubectl.apply(resource(decode={"replicas": 1}, scaling={"gpuBudget": 10}))
    wait_for(kubectl, "Ready")
    with external_metric(kubectl, tmp_path) as waiting:
        waiting.value = 30
        kubectl.apply(autoscaler("prefill"))
        wait_for_engines(kubectl, prefill=3, decode=1, timeout=patience)
        wait_until(
            "the metric to be in use", lambda: says(kubectl, "ScalingActive") == ("True", "ValidMetricFound"), 30
        )

        waiting.value = 60
        wait_for_engines(kubectl, prefill=4, decode=1, timeout=patience)
        wait_for(kubectl, "ScalingLimited", reason="GpuBudget")
        assert scaler(kubectl, "prefill")["spec"] == {"replicas": 6}, "what was asked for stays"

        waiting.value = 5
        wait_for_engines(kubectl, prefill=1, decode=1, timeout=patience)
        wait_for(kubectl, "ScalingLimited", "False")
        assert scaler(kubectl, "prefill")["spec"] == {"replicas": 1}
