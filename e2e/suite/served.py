# SPDX-License-Identifier: Apache-2.0
"""A resource on simulated nodes, and what an operator says of it."""

import json
from collections.abc import Mapping
from typing import Any

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from tandem_connector.contract.peers import PeerTable
from tandem_operator.api.names import API_VERSION, KIND, PEERS_ANNOTATION, RESOURCE_LABEL


def a_resource(**spec: Any) -> dict[str, Any]:
    """Engines on simulated P5en nodes, one of each role."""
    everywhere = {"spec": {"tolerations": [{"operator": "Exists"}]}}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "qwen"},
        "spec": {
            "model": {"name": "Qwen/Qwen3-32B"},
            "engine": {"image": "vllm/vllm-openai:v0.32.0"},
            "accelerator": {"instanceType": "p5en.48xlarge"},
            "prefill": {"replicas": 1, "parallelism": {"tensor": 8}},
            "decode": {"replicas": 1, "parallelism": {"tensor": 8}},
            "frontDoor": {"podTemplate": everywhere},
            # Nobody answers in simulated pods.
            "verification": {"enabled": False},
            **spec,
        },
    }


def condition(kubectl: Kubectl, kind: str) -> Mapping[str, Any]:
    resource = kubectl.get(KIND.lower(), "qwen") or {}
    conditions = resource.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def wait_for(kubectl: Kubectl, kind: str, status: str = "True", reason: str | None = None) -> None:
    def is_so() -> bool:
        found = condition(kubectl, kind)
        return found.get("status") == status and reason in (None, found.get("reason"))

    wait_until(f"{kind} to be {status}", is_so, timeout=60)


def engines(kubectl: Kubectl) -> list[Mapping[str, Any]]:
    return kubectl.list("pod", f"{RESOURCE_LABEL}=qwen,tandem.dev/role in (prefill,decode)")


def tables(kubectl: Kubectl) -> dict[str, PeerTable]:
    return {
        pod["metadata"]["name"]: PeerTable.model_validate_json(pod["metadata"]["annotations"][PEERS_ANNOTATION])
        for pod in engines(kubectl)
        if PEERS_ANNOTATION in pod["metadata"].get("annotations", {})
    }


def hold(kubectl: Kubectl, pod: str, *finalizers: str) -> None:
    """With a finalizer a pod that is deleted stays, as one does whose preStop hook waits."""
    kubectl.run("patch", "pod", pod, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": list(finalizers)}}))
