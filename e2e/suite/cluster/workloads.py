# SPDX-License-Identifier: Apache-2.0
"""Small objects for a node that has no image but busybox."""

from typing import Any

from e2e.kubectl import Kubectl

IMAGE = "tandem.dev/pause:1"
"""The image that every local node has: busybox under /busybox, and nothing else."""

PORT = 8080


def pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """A pod that runs a busybox shell script."""
    container = {"name": "main", "image": IMAGE, "command": ["/busybox", "sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def web_servers(name: str, *, replicas: int, are_ready: bool = True) -> list[dict[str, Any]]:
    """A StatefulSet of servers that answer with their own name, its Service and its headless Service NAME-peers."""
    labels = {"app": name}
    script = f"/busybox mkdir /www && /busybox hostname > /www/index.html && /busybox httpd -f -p {PORT} -h /www"
    container = {
        "name": "web",
        "image": IMAGE,
        "command": ["/busybox", "sh", "-c", script],
        "readinessProbe": {"exec": {"command": ["/busybox", "true" if are_ready else "false"]}, "periodSeconds": 1},
    }
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "podManagementPolicy": "Parallel",
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "serviceName": f"{name}-peers",
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }
    ports = [{"port": 80, "targetPort": PORT}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": ports},
    }
    peers = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{name}-peers"},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": ports},
    }
    return [stateful_set, service, peers]


def pod_for_gpus(name: str, *, gpus: int, tolerates: bool = True) -> dict[str, Any]:
    """A pod that wants GPUs and their share of EFA devices; it tolerates the taint of GPU nodes."""
    limits = {"nvidia.com/gpu": str(gpus), "vpc.amazonaws.com/efa": str(2 * gpus)}
    container = {"name": "engine", "image": "not/pulled", "resources": {"limits": limits}}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}] if tolerates else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "tolerations": tolerations},
    }


def is_ready(kubectl: Kubectl, pod: str) -> bool:
    """Whether the pod exists and is ready."""
    conditions = (kubectl.get("pod", pod) or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
