# SPDX-License-Identifier: Apache-2.0
"""Devices, rights and nodes of engine pods."""

import pytest

from tandem_connector.contract.types import Role
from tests.builders import a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.made import engine, environment, named, pod_spec

P5EN = a_resource().on("p5en.48xlarge").with_tensor(8)


@pytest.mark.parametrize(
    ("instance_type", "tensor", "efas"),
    [
        ("p5en.48xlarge", 8, "16"),
        ("p5en.48xlarge", 4, "8"),
        ("p5en.48xlarge", 1, "2"),
        ("p5.48xlarge", 2, "8"),
        ("p6-b200.48xlarge", 8, "8"),
        ("ml.p5en.48xlarge", 4, "8"),
        ("p4d.24xlarge", 2, "1"),
    ],
)
def test_a_pod_gets_its_share_of_the_nodes_efa_devices_requested_as_limited(
    instance_type: str, tensor: int, efas: str
) -> None:
    resources = engine(a_resource().on(instance_type).with_tensor(tensor))["resources"]
    devices = {"nvidia.com/gpu": str(tensor), "vpc.amazonaws.com/efa": efas}
    assert resources["limits"] == devices
    assert resources["requests"].items() >= devices.items()


def test_engines_on_hyperpod_look_for_nodes_under_hyperpods_name() -> None:
    label = "node.kubernetes.io/instance-type"
    assert pod_spec(P5EN.on("ml.p5en.48xlarge"))["nodeSelector"] == {label: "ml.p5en.48xlarge"}
    assert pod_spec(P5EN)["nodeSelector"] == {label: "p5en.48xlarge"}


def test_each_role_gets_devices_by_its_own_parallelism() -> None:
    resource = P5EN.pulling().with_tensor(2, Role.PREFILL)
    assert engine(resource, Role.PREFILL)["resources"]["limits"]["vpc.amazonaws.com/efa"] == "4"
    assert engine(resource, Role.DECODE)["resources"]["limits"]["vpc.amazonaws.com/efa"] == "16"


def test_resource_names_and_the_number_of_efa_devices_can_be_chosen() -> None:
    resource = P5EN.with_spec("accelerator", "gpuResource", value="nvidia.com/gpu.shared").with_spec(
        "accelerator", "efa", value={"resource": "example.com/efa", "perPod": 4}
    )
    assert engine(resource)["resources"]["limits"] == {"nvidia.com/gpu.shared": "8", "example.com/efa": "4"}
    assert pod_spec(resource)["tolerations"] == [
        {"key": "nvidia.com/gpu.shared", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_a_gpu_pod_requests_cpu_and_memory_by_its_gpus_unless_told_otherwise() -> None:
    assert engine(P5EN)["resources"]["requests"].items() >= {"cpu": "32", "memory": "256Gi"}.items()
    chosen = P5EN.with_spec("decode", "resources", value={"requests": {"cpu": 90}, "limits": {"memory": "1Ti"}})
    resources = engine(chosen)["resources"]
    assert resources["requests"]["cpu"] == "90"
    assert "memory" not in resources["requests"], "Kubernetes takes the limit for the request"
    assert resources["limits"]["memory"] == "1Ti"


def test_huge_pages_are_requested_as_limited_and_libfabric_may_use_them() -> None:
    resource = P5EN.with_spec("accelerator", "hugepages2Mi", value="5120Mi")
    resources = engine(resource)["resources"]
    assert resources["requests"]["hugepages-2Mi"] == resources["limits"]["hugepages-2Mi"] == "5120Mi"
    assert "FI_EFA_USE_HUGE_PAGE" not in environment(resource)


def test_without_huge_pages_libfabric_is_told_not_to_try() -> None:
    assert "hugepages-2Mi" not in engine(P5EN)["resources"]["limits"]
    assert environment(P5EN)["FI_EFA_USE_HUGE_PAGE"] == "0"


def test_with_efa_the_provider_is_pinned_and_memory_may_be_locked_without_privileges() -> None:
    assert environment(P5EN)["FI_PROVIDER"] == "efa"
    assert engine(P5EN)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsUser": 0,
        "capabilities": {"add": ["IPC_LOCK"]},
    }


def test_privileged_only_when_asked_for() -> None:
    resource = P5EN.with_spec("accelerator", "privileged", value=True)
    assert engine(resource)["securityContext"] == {"privileged": True, "runAsUser": 0}


def test_without_an_accelerator_a_pod_asks_for_nothing_and_may_go_anywhere() -> None:
    resource = a_resource().with_tensor(2)
    spec, container = pod_spec(resource), engine(resource)
    assert "resources" not in container
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}
    assert not {"affinity", "nodeSelector", "tolerations"} & spec.keys()
    assert not [name for name in environment(resource) if name.startswith("FI_")]
    assert named(spec["volumes"], "shm") == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}


def test_dra_claims_replace_the_devices_of_the_profile() -> None:
    claim = {"name": "gpus-and-efas", "resourceClaimTemplateName": "node"}
    resource = P5EN.with_spec("accelerator", "resourceClaims", value=[claim])
    assert pod_spec(resource)["resourceClaims"] == [claim]
    assert engine(resource)["resources"]["claims"] == [{"name": "gpus-and-efas"}]
    assert "limits" not in engine(resource)["resources"]
    assert environment(resource)["FI_PROVIDER"] == "efa"


@pytest.mark.parametrize(
    "resource",
    [
        P5EN.with_spec("accelerator", "efa", value={"perPod": 0}),
        P5EN.with_spec("transfer", "backend", value="UCX"),
    ],
)
def test_without_efa_devices_nothing_of_efa_is_set_up(resource: ResourceBuilder) -> None:
    assert engine(resource)["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert "FI_PROVIDER" not in environment(resource)
    assert "capabilities" not in engine(resource)["securityContext"]


@pytest.mark.parametrize("role", Role)
def test_both_roles_want_the_zone_of_one_shared_label(role: Role) -> None:
    terms = pod_spec(P5EN, role)["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms == [
        {
            "labelSelector": {"matchLabels": {"tandem.dev/engine": "qwen"}},
            "topologyKey": "topology.kubernetes.io/zone",
        }
    ]


def test_the_deepest_network_layer_is_preferred_most() -> None:
    terms = pod_spec(P5EN)["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    weights = {term["podAffinityTerm"]["topologyKey"]: term["weight"] for term in terms}
    layers = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4)]
    assert sorted(weights, key=weights.__getitem__) == layers


def test_engines_prefer_hosts_without_the_other_role() -> None:
    (term,) = pod_spec(P5EN, Role.PREFILL)["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"]["tandem.dev/role"] == "decode"


def test_preferences_can_be_switched_off_and_the_zone_stays() -> None:
    resource = P5EN.with_spec("placement", value={"preferNearNetwork": False, "spreadRolesAcrossHosts": False})
    affinity = pod_spec(resource)["affinity"]
    assert list(affinity) == ["podAffinity"]
    assert list(affinity["podAffinity"]) == ["requiredDuringSchedulingIgnoredDuringExecution"]


def test_placement_adds_to_the_node_selector_and_tolerations_and_may_rename_the_instance_type() -> None:
    spot = {"key": "spot", "operator": "Exists"}
    resource = P5EN.with_spec(
        "placement",
        value={
            "nodeSelector": {"node.kubernetes.io/instance-type": "ml.p5en.48xlarge", "pool": "a"},
            "tolerations": [spot],
            "schedulerName": "kueue",
            "priorityClassName": "high",
        },
    )
    spec = pod_spec(resource)
    assert spec["nodeSelector"] == {"node.kubernetes.io/instance-type": "ml.p5en.48xlarge", "pool": "a"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, spot]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("kueue", "high")
