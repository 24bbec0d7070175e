# SPDX-License-Identifier: Apache-2.0
"""A simulated cluster that is well, and each fault of it by itself."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from e2e.cluster.local.simulated import node as simulated_node
from tandem_operator.api.crd import DEFINITIONS
from tandem_operator.kubectl.terminal.doctor import diagnosis_of
from tandem_operator.kubectl.views.doctor import diagnose
from tandem_operator.kubectl.views.finding import ClusterSeen, Finding, Severity
from tests.builders import a_resource

EFA, GPU, ZONE = "vpc.amazonaws.com/efa", "nvidia.com/gpu", "topology.kubernetes.io/zone"
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
Json = dict[str, Any]


def a_node(number: int = 0) -> Json:
    node = deepcopy(simulated_node(number))
    node["status"] = deepcopy(node["status"]) | {"conditions": [{"type": "Ready", "status": "True"}]}
    return node


def a_plugin(image: str, **pod_spec: Any) -> Json:
    return {
        "metadata": {"name": image.rpartition("/")[2].partition(":")[0], "namespace": "kube-system"},
        "spec": {
            "template": {"spec": {"containers": [{"image": image}], "tolerations": [dict(TOLERATION)], **pod_spec}}
        },
        "status": {"desiredNumberScheduled": 2, "numberReady": 2},
    }


def held_to(*instance_types: str) -> Json:
    expression = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(instance_types)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


EFA_PLUGIN = "example.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
NVIDIA_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.19.3"


def a_cluster() -> ClusterSeen:
    operator = {"metadata": {"name": "tandem", "namespace": "tandem-system"}, "status": {"availableReplicas": 2}}
    return ClusterSeen(
        nodes=(a_node(0), a_node(1)),
        daemon_sets=(a_plugin(EFA_PLUGIN, affinity=held_to("p5en.48xlarge")), a_plugin(NVIDIA_PLUGIN)),
        operators=(operator,),
        definitions=tuple(each.manifest() for each in DEFINITIONS),
        namespaces=({"metadata": {"name": "models", "labels": {}}},),
        resources=(a_resource().on("p5en.48xlarge").with_tensor(8).manifest(),),
    )


def faults(cluster: ClusterSeen) -> list[Finding]:
    return [each for each in diagnose(cluster).findings if each.severity is not Severity.HINT]


def with_node(change: Callable[[Json], object], cluster: ClusterSeen | None = None) -> ClusterSeen:
    node = a_node(0)
    change(node)
    return replace(cluster or a_cluster(), nodes=(node, a_node(1)))


def with_plugin(index: int, plugin: Json) -> ClusterSeen:
    cluster = a_cluster()
    plugins = list(cluster.daemon_sets or ())
    plugins[index] = plugin
    return replace(cluster, daemon_sets=tuple(plugins))


def offering(**amounts: str) -> Callable[[Json], object]:
    names = {"gpus": GPU, "efas": EFA}
    return lambda node: node["status"].update(
        allocatable=node["status"]["allocatable"] | {names[name]: amount for name, amount in amounts.items()}
    )


def not_ready(plugin: Json) -> Json:
    return {**plugin, "status": {"desiredNumberScheduled": 2, "numberReady": 1}}


def asking_for_hugepages() -> ClusterSeen:
    resource = a_resource().on("p5en.48xlarge").with_spec("accelerator", "hugepages2Mi", value="64Gi")
    return replace(a_cluster(), nodes=(a_node(0),), resources=(resource.manifest(),))


def of_an_older_schema() -> ClusterSeen:
    definitions = [each.manifest() for each in DEFINITIONS]
    del definitions[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return replace(a_cluster(), definitions=tuple(definitions))


def enforcing(level: str) -> ClusterSeen:
    labels = {"pod-security.kubernetes.io/enforce": level}
    return replace(a_cluster(), namespaces=({"metadata": {"name": "models", "labels": labels}},))


def test_a_cluster_that_is_well_has_no_faults_and_the_hints_that_cannot_be_seen() -> None:
    diagnosis = diagnose(a_cluster())
    assert {each.severity for each in diagnosis.findings} == {Severity.HINT}
    assert diagnosis.is_well
    assert [(node.gpus, node.efas, node.hugepages_mebibytes) for node in diagnosis.nodes] == [
        ("8/8", "16/16", 42242)
    ] * 2


SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
FAULTS = {
    "no GPUs": (with_node(offering(gpus="0")), "it offers no nvidia.com/gpu"),
    "a broken GPU": (with_node(offering(gpus="7")), "it offers 7 nvidia.com/gpu"),
    "no EFA devices": (with_node(offering(efas="0")), "it offers no vpc.amazonaws.com/efa"),
    "few EFA devices": (with_node(offering(efas="1")), "it offers 1 vpc.amazonaws.com/efa"),
    "a node that does not answer": (
        with_node(lambda node: node["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}])),
        "it isn't ready",
    ),
    "no zone": (
        with_node(lambda node: node["metadata"]["labels"].pop(ZONE)),
        "it has no label topology.kubernetes.io/zone",
    ),
    "huge pages": (asking_for_hugepages(), "models/qwen asks for 65536Mi"),
    "a definition that is missing": (
        replace(a_cluster(), definitions=(DEFINITIONS[0].manifest(),)),
        "it isn't installed",
    ),
    "no operator": (replace(a_cluster(), operators=()), "no Deployment of it is there"),
    "an operator that is down": (
        replace(a_cluster(), operators=({"metadata": {"name": "tandem", "namespace": "tandem-system"}},)),
        "no pod of tandem-system/tandem is available",
    ),
    "baseline": (enforcing("baseline"), "it enforces Pod Security baseline"),
    "restricted": (enforcing("restricted"), "it enforces Pod Security restricted"),
    "NVIDIA's plugin that mounts all": (
        with_plugin(1, a_plugin("nvcr.io/nvidia/k8s-device-plugin:v0.19.1")),
        "version 0.19.1 mounts all EFA devices",
    ),
    "a taint that a plugin does not tolerate": (
        with_plugin(0, a_plugin(EFA_PLUGIN, tolerations=[])),
        "it doesn't tolerate nvidia.com/gpu=true:NoSchedule",
    ),
    "an instance type that a plugin leaves out": (
        with_plugin(0, a_plugin(EFA_PLUGIN, affinity=held_to("p5.48xlarge"))),
        "its node affinity doesn't list p5en.48xlarge",
    ),
    "a plugin that fails": (with_plugin(1, not_ready(a_plugin(NVIDIA_PLUGIN))), "1 of its 2 pods aren't ready"),
    "two that give out EFA devices": (
        with_plugin(1, a_plugin("example.com/eks/aws-dranet:v1.2.0")),
        "both give out EFA devices",
    ),
}
WARNINGS = {
    "cordoned": (with_node(lambda node: node["spec"].update(unschedulable=True)), "it is cordoned"),
    "a taint": (
        with_node(lambda node: node["spec"]["taints"].append(SPOT), replace(a_cluster(), daemon_sets=())),
        "spot=yes",
    ),
    "no network layers": (
        with_node(
            lambda node: node["metadata"].update(
                labels={key: value for key, value in node["metadata"]["labels"].items() if "layer" not in key}
            )
        ),
        "network-node-layer-*",
    ),
    "two zones": (
        with_node(lambda node: node["metadata"]["labels"].update({ZONE: "us-west-2c"})),
        "1 in us-west-2a, 1 in us-west-2c",
    ),
    "an unknown type": (
        with_node(lambda node: node["metadata"]["labels"].update({"node.kubernetes.io/instance-type": "x1.big"})),
        "can't name them",
    ),
    "no GPUs at all": (replace(a_cluster(), nodes=(), daemon_sets=()), "none has GPUs"),
    "another version's schema": (of_an_older_schema(), "its schema is of another version"),
    "an old EFA plugin": (
        with_plugin(0, a_plugin("example.com/eks/aws-efa-k8s-device-plugin:v0.4.4")),
        "version 0.4.4 is older",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_alone_and_has_a_remedy(name: str) -> None:
    cluster, message = FAULTS[name]
    (found,) = faults(cluster)
    assert (found.severity, message in found.message) == (Severity.FAULT, True), found.message
    assert found.remedy
    assert not diagnose(cluster).is_well


@pytest.mark.parametrize("name", WARNINGS)
def test_each_warning_is_found_alone_and_leaves_the_cluster_well(name: str) -> None:
    cluster, message = WARNINGS[name]
    (found,) = faults(cluster)
    assert (found.severity, message in found.message) == (Severity.WARNING, True), found.message
    assert diagnose(cluster).is_well


@pytest.mark.parametrize(
    "image",
    [
        "nvcr.io/nvidia/k8s-device-plugin:v0.19.3",
        "nvcr.io/nvidia/k8s-device-plugin:v0.18.2",
        "nvcr.io/nvidia/k8s-device-plugin",
    ],
)
def test_other_versions_of_nvidias_plugin_are_well(image: str) -> None:
    assert faults(with_plugin(1, a_plugin(image))) == []


def test_a_resource_that_tolerates_a_taint_makes_it_no_warning() -> None:
    placement = {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    resource = a_resource().on("p5en.48xlarge").with_spec("placement", value=placement)
    cluster = replace(a_cluster(), resources=(resource.manifest(),), daemon_sets=())
    assert faults(with_node(lambda node: node["spec"]["taints"].append(SPOT), cluster)) == []


def test_what_may_not_be_read_is_no_fault_and_is_said() -> None:
    cluster = ClusterSeen(None, None, None, None, None, None, unread=("nodes: forbidden",))
    diagnosis = diagnose(cluster)
    assert (diagnosis.findings, diagnosis.unread) == ((), ("nodes: forbidden",))


def test_faults_are_drawn_first_with_what_to_do() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(diagnosis_of(diagnose(with_node(offering(efas="0")))))
    lines = captured.get().splitlines()
    first = next(number for number, line in enumerate(lines) if "1 fault" in line)
    assert "fault node p5en-0: it offers no vpc.amazonaws.com/efa" in lines[first + 1]
    assert "do: run the EFA device plugin" in lines[first + 2]
