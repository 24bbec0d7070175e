# SPDX-License-Identifier: Apache-2.0
"""The resource that the demo and the end-to-end tests apply: the CPU sample, fitted to the cluster at hand."""

from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.interface import NodeFacts
from e2e.engine.environment import EngineEnvironment
from e2e.images.catalogue import ENGINE_VENV
from tandem_connector.contract.reverse import Reverse
from tandem_operator.api.transfer import Protocol

SAMPLE = Path(__file__).parent.parent / "manifests" / "samples" / "cpu-tiny.yaml"
NUMA_TOPOLOGY = Path("/sys/devices/system/node")
"""Where Linux tells of NUMA nodes. Missing on kernels that know none."""


def cpu_resource(
    facts: NodeFacts,
    environment: EngineEnvironment,
    model: Path,
    *,
    name: str = "",
    protocol: Protocol = Protocol.PUSH,
    reverse: Reverse | None = None,
) -> dict[str, Any]:
    """The sample as it can run there: environment and model mounted from this machine where nodes can see it.

    On other clusters its engine image must hold both.

    Args:
        facts: what is known of the nodes.
        environment: the engine's.
        model: its folder.
        name: of the resource; default: the sample's.
        protocol: how KV goes from prefill to decode.
        reverse: which ways it goes back; None: the protocol's default.
    """
    with SAMPLE.open() as file:
        resource: dict[str, Any] = yaml.safe_load(file)
    if name:
        resource["metadata"]["name"] = name
    spec = resource["spec"]
    # What engines compute and move is counted to the token, and the operator's conversations would be counted too.
    spec["verification"] = {"enabled": False}
    spec["transfer"] = {"protocol": protocol.value}
    if protocol is Protocol.PUSH:
        # The script's turns are short: with the default decode would compute their few new words itself.
        spec["transfer"]["disaggregateAboveTokens"] = 32
    if reverse is not None:
        spec["transfer"]["reverse"] = reverse.value
    volumes = []
    if facts.can_mount_host_paths:
        spec["model"]["source"] = {"volume": {"hostPath": str(model)}}
        host_path = {"path": str(environment.site_packages), "type": "Directory"}
        volumes.append(({"name": "environment", "hostPath": host_path}, str(ENGINE_VENV.site_packages)))
    if facts.is_local:
        # vLLM's NixlConnector binds every CPU engine to the last core of each NUMA node, so that two engines would share
        # one core. It leaves them where they are when it finds no nodes.
        if NUMA_TOPOLOGY.exists():
            volumes.append(({"name": "no-numa-nodes", "emptyDir": {}}, str(NUMA_TOPOLOGY)))
        # With one engine bound to each core none waits for the other's.
        for index, role in enumerate(("prefill", "decode")):
            core = {"name": "VLLM_CPU_OMP_THREADS_BIND", "value": str(index % facts.cores)}
            spec[role].setdefault("env", []).append(core)
    if volumes:
        for role in ("prefill", "decode"):
            spec[role]["podTemplate"] = _with_volumes(volumes)
    return resource


def _with_volumes(volumes: list[tuple[dict[str, Any], str]]) -> dict[str, Any]:
    mounts = [{"name": volume["name"], "mountPath": path, "readOnly": True} for volume, path in volumes]
    return {
        "spec": {
            "containers": [{"name": "engine", "volumeMounts": mounts}],
            "volumes": [volume for volume, _ in volumes],
        }
    }
