# SPDX-License-Identifier: Apache-2.0
"""Simulated nodes with the devices of a p5en.48xlarge, whose kubelet is played by kwok.

They carry the taint that GPU nodes usually carry, so only pods that ask for such nodes come to them. Pods there are
ready at once and run nothing.
"""

import shutil
from pathlib import Path
from typing import Any

from e2e.cluster.local.endpoints import Endpoints
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.program import Program
from e2e.cluster.nodes import SIMULATED

PROGRAM = "kwok"
NODE_PREFIX = "p5en-"
KEPT_AS_IT_IS = "e2e.tandem.dev/kept-as-it-is"
"""A simulated node with this annotation isn't made ready, whatever its value."""
POD_CIDR = "10.244.128.0/17"
"""Addresses of pods that don't exist: nothing answers on them."""

_STAGES = Path(__file__).with_name("stages.yaml")
_REGION = "us-west-2"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")

# Devices, vCPUs and memory: Karpenter's instance-type reference. Huge pages: the EFA installer's formula, which they take
# off the allocatable memory.
_CAPACITY = {
    "cpu": "192",
    "ephemeral-storage": "500Gi",
    "hugepages-2Mi": "42242Mi",
    "memory": "2097152Mi",
    "nvidia.com/gpu": "8",
    "pods": "198",
    "vpc.amazonaws.com/efa": "16",
}
_ALLOCATABLE = _CAPACITY | {"cpu": "191450m", "memory": "1895090Mi"}


def write_configuration(layout: Layout) -> None:
    """Put kwok's configuration into the state folder."""
    shutil.copyfile(_STAGES, layout.config / "kwok.yaml")


def program(binary: Path, seen: Layout, endpoints: Endpoints) -> Program:
    """Kwok, for the nodes that are marked as its own and for no others. `seen` is the layout as it sees it."""
    address = f"{endpoints.address}:{endpoints.kwok}"
    argv = [
        f"{binary}",
        f"--cidr={POD_CIDR}",
        f"--config={seen.config / 'kwok.yaml'}",
        f"--kubeconfig={seen.kubeconfig}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={SIMULATED}=fake",
        "--node-lease-duration-seconds=40",
        f"--server-address={address}",
    ]
    return Program(PROGRAM, argv, f"http://{address}/healthz")


def node(number: int) -> dict[str, Any]:
    """The object of one node. Two nodes share a switch of the lowest layer, four of the next, eight a spine and a zone."""
    name = f"{NODE_PREFIX}{number}"
    zone = ZONES[number // 8 % len(ZONES)]
    labels = {
        "beta.kubernetes.io/instance-type": "p5en.48xlarge",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "p5en.48xlarge",
        "topology.k8s.aws/network-node-layer-1": f"nn-spine-{number // 8}",
        "topology.k8s.aws/network-node-layer-2": f"nn-middle-{number // 4}",
        "topology.k8s.aws/network-node-layer-3": f"nn-leaf-{number // 2}",
        "topology.kubernetes.io/region": _REGION,
        "topology.kubernetes.io/zone": zone,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED: "fake"}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": _ALLOCATABLE,
            "capacity": _CAPACITY,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "simulated://0",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": "simulated",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "",
                "systemUUID": "",
            },
        },
    }
