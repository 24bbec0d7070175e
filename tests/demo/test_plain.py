# SPDX-License-Identifier: Apache-2.0
"""The plain engine's pod is what the resource's engines are, without Tandem."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from e2e.cluster.interface import NodeFacts
from e2e.demo.plain import is_ready, plain_pod
from e2e.engine.environment import EngineEnvironment
from e2e.ready import NotReadyError
from e2e.sample import cpu_resource

LOCAL = NodeFacts(
    nodes=1,
    simulated_nodes=0,
    cores=2,
    memory=24 << 30,
    architecture="amd64",
    is_local=True,
    can_mount_host_paths=True,
)
ELSEWHERE = replace(LOCAL, is_local=False, can_mount_host_paths=False)


def resource_on(facts: NodeFacts) -> dict[str, Any]:
    return cpu_resource(facts, EngineEnvironment(Path("/environment")), Path("/model"))


@pytest.mark.parametrize("facts", [LOCAL, ELSEWHERE], ids=["here", "elsewhere"])
def test_it_is_valid_and_has_the_resources_image_arguments_and_model(facts: NodeFacts) -> None:
    resource = resource_on(facts)
    pod = plain_pod(resource)
    (container,) = pod["spec"]["containers"]

    kubernetes_validate.validate(pod, "1.37", strict=True)
    assert container["image"] == resource["spec"]["engine"]["image"]
    assert set(resource["spec"]["engine"]["args"]) < set(container["command"])
    assert "--block-size=32" in container["command"]
    paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pod["spec"]["volumes"]}
    assert paths["model"] == resource["spec"]["model"]["source"]["volume"]["hostPath"]
    assert {mount["name"] for mount in container["volumeMounts"]} == paths.keys()


def test_it_has_one_core_as_each_engine_of_the_resource_has() -> None:
    resource = resource_on(LOCAL)
    (container,) = plain_pod(resource)["spec"]["containers"]

    assert {"name": "VLLM_CPU_OMP_THREADS_BIND", "value": "1"} in container["env"]


def test_nothing_of_tandems_connector_is_in_it() -> None:
    assert "tandem_connector" not in str(plain_pod(resource_on(LOCAL)))


def test_a_pod_that_has_ended_is_not_waited_for() -> None:
    with pytest.raises(NotReadyError, match="kubectl logs plain"):
        is_ready({"status": {"phase": "Failed", "conditions": []}})

    assert not is_ready({"status": {"phase": "Pending"}})
    assert is_ready({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
