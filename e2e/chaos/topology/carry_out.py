# SPDX-License-Identifier: Apache-2.0
"""Carries changes out with what people and machines use for it: kubectl, the Eviction API, taints."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from e2e.chaos.topology.changes import Change, Kind
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl, KubectlError
from tandem_connector.contract.types import Role

GONE_WITHIN = 300.0
"""Seconds: more than any pod's grace period."""
EVICTED_WITHIN = 60.0
"""Seconds until a disruption budget allows an eviction: its controller counts pods a moment after they are ready."""


class Carrier:
    """On one resource."""

    def __init__(self, kubectl: Kubectl, resource: str) -> None:
        """Nothing yet.

        Args:
            kubectl: of the resource's namespace.
            resource: its name.
        """
        self._kubectl = kubectl
        self._resource = resource
        self._taints = count(1)

    def carry_out(self, change: Change) -> None:
        """Do it; a drain and a taint are over when the pod is gone and the node takes pods again.

        Raises:
            KubectlError: the API server refused, or a drain wasn't over in time.
            GaveUpError: an eviction wasn't allowed in time, or a taint's pod not gone.
        """
        match change.kind:
            case Kind.UP | Kind.DOWN:
                ordinal = int(change.pod.rpartition("-")[2])
                self.scale(change.role, ordinal + (change.kind is Kind.UP))
            case Kind.DELETE:
                self._kubectl.run("delete", "pod", change.pod, "--wait=false")
            case Kind.EVICT:
                evict(self._kubectl, change.pod)
            case Kind.DRAIN:
                drain(self._kubectl, change.pod)
            case Kind.TAINT:
                taint(self._kubectl, change.pod, f"tandem.dev/ends-{next(self._taints)}")

    def scale(self, role: Role, replicas: int) -> None:
        """Ask the role's scaler for so many."""
        self._kubectl.run("scale", f"pdscaler/{self._resource}-{role}", f"--replicas={replicas}")


def evict(kubectl: Kubectl, pod: str) -> None:
    """Evict the pod as soon as its disruption budget allows it, as whatever scales nodes does.

    Raises:
        KubectlError: the API server refused for another reason.
        GaveUpError: it wasn't allowed in time.
    """
    wait_until(f"{pod} to be evicted", lambda: _is_evicted(kubectl, pod), EVICTED_WITHIN, every=1.0)


def _is_evicted(kubectl: Kubectl, pod: str) -> bool:
    try:
        kubectl.evict(pod)
    except KubectlError as error:
        if "disruption budget" not in str(error):
            raise
        return False
    return True


def drain(kubectl: Kubectl, pod: str) -> None:
    """Drain the pod's node, of this pod only, and let it take pods again.

    Raises:
        KubectlError: the pod wasn't gone in time.
    """
    node = _pod(kubectl, pod)["spec"]["nodeName"]
    try:
        kubectl.run(
            *("drain", node, f"--pod-selector=statefulset.kubernetes.io/pod-name={pod}"),
            *("--delete-emptydir-data", "--ignore-daemonsets", f"--timeout={GONE_WITHIN:.0f}s"),
            timeout=GONE_WITHIN + 30.0,
        )
    finally:
        kubectl.run("uncordon", node)


def taint(kubectl: Kubectl, pod: str, key: str) -> None:
    """Taint the pod's node so that no pod but this one has to leave it, and take the taint away when the pod is gone.

    Args:
        kubectl: of the pod's namespace.
        pod: the one that has to leave.
        key: of the taint, of a kind that no pod tolerates yet.

    Raises:
        GaveUpError: the pod wasn't gone in time.
    """
    manifest = _pod(kubectl, pod)
    with _tolerated(kubectl, manifest, key) as node:
        kubectl.run("taint", "nodes", node, f"{key}=:NoExecute")
        uid = manifest["metadata"]["uid"]
        wait_until(f"{pod} to leave", lambda: _uid(kubectl, pod) != uid, GONE_WITHIN, every=1.0)


@contextmanager
def _tolerated(kubectl: Kubectl, leaving: dict[str, Any], key: str) -> Iterator[str]:
    """All other pods of the node have a toleration for this; at the end there is no such taint. The node's name."""
    node = leaving["spec"]["nodeName"]
    # A pod that comes after the list was read would have to leave as well.
    kubectl.run("taint", "nodes", node, f"{key}=:NoSchedule")
    try:
        _have_tolerated(kubectl, node, leaving, key)
        yield node
    finally:
        kubectl.run("taint", "nodes", node, f"{key}-")


def _have_tolerated(kubectl: Kubectl, node: str, leaving: dict[str, Any], key: str) -> None:
    listed = kubectl.run("get", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}", "-o", "json")
    toleration = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": key, "operator": "Exists"}}]
    for each in json.loads(listed)["items"]:
        metadata = each["metadata"]
        if metadata["uid"] != leaving["metadata"]["uid"] and not metadata.get("deletionTimestamp"):
            where = ("--namespace", metadata["namespace"])
            kubectl.run("patch", "pod", metadata["name"], *where, "--type=json", "-p", json.dumps(toleration))


def _pod(kubectl: Kubectl, name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(kubectl.run("get", "pod", name, "-o", "json"))
    return manifest


def _uid(kubectl: Kubectl, pod: str) -> str | None:
    manifest = kubectl.get("pod", pod)
    return manifest["metadata"]["uid"] if manifest else None
