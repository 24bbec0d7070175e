# SPDX-License-Identifier: Apache-2.0
"""What the API server says of the nodes, summed up."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.cluster.interface import ClusterError, NodeFacts, Part

SIMULATED = "kwok.x-k8s.io/node"
"""The annotation of a simulated node."""

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def read(kubectl: Sequence[str]) -> list[Mapping[str, Any]]:
    """The nodes as the API server gives them.

    Raises:
        ClusterError: It does not answer.
    """
    asked = subprocess.run([*kubectl, "get", "nodes", "--output=json"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise ClusterError(
            f"the cluster does not answer; `{' '.join([*kubectl, 'get', 'nodes'])}` says:\n{asked.stderr}"
        )
    return list(json.loads(asked.stdout)["items"])


def facts(nodes: Sequence[Mapping[str, Any]], *, is_local: bool, can_mount_host_paths: bool) -> NodeFacts:
    """The facts of these nodes."""
    simulated = [node for node in nodes if is_simulated(node)]
    real = [node for node in nodes if node not in simulated]
    architectures = {node["status"]["nodeInfo"]["architecture"] for node in real}
    if len(architectures) > 1:
        raise ClusterError(f"the nodes have different architectures, {sorted(architectures)}: images are built for one")
    return NodeFacts(
        nodes=len(real),
        simulated_nodes=len(simulated),
        cores=sum(quantity(node["status"]["capacity"]["cpu"]) for node in real),
        memory=sum(quantity(node["status"]["capacity"]["memory"]) for node in real),
        architecture=architectures.pop() if architectures else "",
        is_local=is_local,
        can_mount_host_paths=can_mount_host_paths,
    )


def status(kubectl: Sequence[str]) -> list[Part]:
    """A part for each node, or one that says why there is none."""
    try:
        return [
            Part(f"node {node['metadata']['name']}", is_ready(node), node["status"]["nodeInfo"]["kubeletVersion"])
            for node in read(kubectl)
        ]
    except ClusterError as error:
        return [Part("API server", False, str(error))]


def is_simulated(node: Mapping[str, Any]) -> bool:
    """Whether a node only pretends to run pods."""
    return SIMULATED in node["metadata"].get("annotations", {})


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a node takes pods."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def quantity(text: str) -> int:
    """A Kubernetes quantity as a whole number, rounded down: `16Gi`, `4`, `1500m`."""
    if text.endswith("m"):
        return int(text[:-1]) // 1000
    for suffix, factor in (_BINARY | _DECIMAL).items():
        if text.endswith(suffix):
            return int(float(text.removesuffix(suffix)) * factor)
    return int(text)
