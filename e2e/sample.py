# SPDX-License-Identifier: Apache-2.0
"""The resource that the demo and the end-to-end tests apply: the CPU sample, fitted to the cluster at hand."""

import copy
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.interface import NodeFacts
from e2e.engine.environment import EngineEnvironment

SAMPLE = Path(__file__).parent.parent / "manifests" / "samples" / "cpu-tiny.yaml"
SITE_PACKAGES = "/opt/engine/lib/python3.11/site-packages"
"""Where the thin engine image expects the engine environment."""


def cpu_resource(facts: NodeFacts, environment: EngineEnvironment, model: Path, name: str = "") -> dict[str, Any]:
    """The sample as it can run there: environment and model mounted from this machine where nodes can see it.

    On other clusters the sample stays as it is, and its engine image must hold both.
    """
    with SAMPLE.open() as file:
        resource: dict[str, Any] = yaml.safe_load(file)
    resource = copy.deepcopy(resource)
    if name:
        resource["metadata"]["name"] = name
    spec = resource["spec"]
    if facts.can_mount_host_paths:
        spec["model"]["source"] = {"volume": {"hostPath": str(model)}}
        for role in ("prefill", "decode"):
            spec[role]["podTemplate"] = _with_environment(environment.site_packages)
    if facts.is_local:
        # With one engine bound to each core none waits for the other's.
        for index, role in enumerate(("prefill", "decode")):
            spec[role].setdefault("env", []).append(
                {"name": "VLLM_CPU_OMP_THREADS_BIND", "value": str(index % facts.cores)}
            )
    return resource


def _with_environment(site_packages: Path) -> dict[str, Any]:
    return {
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "volumeMounts": [{"name": "environment", "mountPath": SITE_PACKAGES, "readOnly": True}],
                }
            ],
            "volumes": [{"name": "environment", "hostPath": {"path": str(site_packages), "type": "Directory"}}],
        }
    }
