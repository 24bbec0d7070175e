# SPDX-License-Identifier: Apache-2.0
"""The nodes that `manifests/eks` asks for are those that engines ask for."""

import json
import re
from typing import Any

import pytest

from tandem_operator.api.accelerators import EFA_RESOURCE, GPU_RESOURCE, PROFILES
from tandem_operator.api.names import INSTANCE_TYPE_LABEL, ZONE_LABEL
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, a_resource, observed
from tests.manifests.checking import MANIFESTS, SCHEMAS, Manifest, documents, files, of_kind

TYPE = "p5en.48xlarge"
NODES = [path for path in files("eks") if "nodes-" in path]
TERRAFORM = json.loads((MANIFESTS / "eks/eks.tf.json").read_text())["module"]["eks"]
PROFILE = PROFILES[TYPE]


def group_of(path: str) -> Manifest:
    [config] = documents(path)
    [group] = config["managedNodeGroups"]
    return dict(group)


def requirements(path: str, kind: str) -> dict[str, list[str]]:
    spec = of_kind(path, kind)["spec"]
    listed = spec.get("requirements") or spec["template"]["spec"]["requirements"]
    return {each["key"]: each["values"] for each in listed}


def engine_pod(hugepages: str | None = None) -> Manifest:
    resource = a_resource().on(TYPE).with_tensor(8)
    if hugepages:
        resource = resource.with_spec("accelerator", "hugepages2Mi", value=hugepages)
    sets = [each for each in plan(observed(resource), DEFAULTS).objects if each["kind"] == "StatefulSet"]
    pod: Manifest = sets[0]["spec"]["template"]["spec"]
    return pod


def tolerates(pod: Manifest, taint: dict[str, str]) -> bool:
    return any(
        each.get("key") in {None, taint["key"]}
        and each.get("effect") in {None, taint["effect"]}
        and (each.get("operator") == "Exists" or each.get("value") == taint.get("value"))
        for each in pod["tolerations"]
    )


def taints() -> dict[str, list[dict[str, str]]]:
    """Of each kind of node, in Kubernetes' spelling."""
    pool = of_kind("eks/karpenter.yaml", "NodePool")["spec"]["template"]["spec"]
    terraform = TERRAFORM["eks_managed_node_groups"]["p5en"]["taints"].values()
    return {
        **{path: group_of(path)["taints"] for path in NODES},
        "karpenter": pool["taints"],
        "terraform": [{**each, "effect": {"NO_SCHEDULE": "NoSchedule"}[each["effect"]]} for each in terraform],
    }


@pytest.mark.parametrize("where", taints())
def test_engines_tolerate_what_keeps_others_off_their_nodes_and_so_do_the_device_plugins(where: str) -> None:
    plugins = [documents_of_values(f"device-plugin-{name}") for name in ("efa", "nvidia")]

    assert taints()[where]
    for taint in taints()[where]:
        assert all(tolerates(each, taint) for each in (engine_pod(), *plugins))


def documents_of_values(name: str) -> Manifest:
    [values] = documents(f"eks/{name}.values.yaml")
    return values


@pytest.mark.parametrize("path", NODES)
def test_a_node_group_is_of_the_type_that_engines_select_in_one_zone_and_has_efa(path: str) -> None:
    group = group_of(path)

    assert engine_pod()["nodeSelector"] == {INSTANCE_TYPE_LABEL: group["instanceType"]}
    assert len(group["availabilityZones"]) == 1
    assert group["availabilityZones"][0] in documents("eks/cluster.yaml")[0]["availabilityZones"]
    assert group["efaEnabled"] is True


@pytest.mark.parametrize("path", NODES)
def test_a_node_group_belongs_to_the_cluster(path: str) -> None:
    assert documents(path)[0]["metadata"] == documents("eks/cluster.yaml")[0]["metadata"]


def test_karpenter_makes_nodes_of_the_type_in_one_zone_and_in_whole_numbers() -> None:
    wanted = requirements("eks/karpenter.yaml", "NodePool")
    limit = int(of_kind("eks/karpenter.yaml", "NodePool")["spec"]["limits"][GPU_RESOURCE])

    assert wanted[INSTANCE_TYPE_LABEL] == [TYPE]
    assert len(wanted[ZONE_LABEL]) == 1
    assert limit % PROFILE.gpus == 0


def test_karpenter_attaches_all_efa_devices_because_engines_ask_for_some_and_no_interfaces_are_named() -> None:
    for path in ("eks/karpenter.yaml", "eks/karpenter-hugepages.yaml"):
        assert "networkInterfaces" not in of_kind(path, "EC2NodeClass")["spec"]
    limits = engine_pod()["containers"][0]["resources"]["limits"]
    assert limits[EFA_RESOURCE] == str(PROFILE.efas)


def test_nodes_with_huge_pages_have_as_many_as_the_operator_reckons_with() -> None:
    pages = PROFILE.hugepages_mebibytes // 2
    overlay = of_kind("eks/karpenter-hugepages.yaml", "NodeOverlay")["spec"]
    bottlerocket = group_of("eks/nodes-bottlerocket.yaml")["bottlerocket"]["settings"]["kernel"]["sysctl"]
    [command] = group_of("eks/nodes-hugepages.yaml")["preBootstrapCommands"]
    user_data = of_kind("eks/karpenter-hugepages.yaml", "EC2NodeClass")["spec"]["userData"]

    assert overlay["capacity"] == {"hugepages-2Mi": f"{PROFILE.hugepages_mebibytes}Mi"}
    assert bottlerocket == {"vm.nr_hugepages": str(pages)}
    assert re.findall(r"nr_hugepages=(\d+)", command) == re.findall(r"nr_hugepages=(\d+)", user_data) == [str(pages)]


def test_eight_engines_of_one_gpu_each_find_the_huge_pages_that_the_documents_name() -> None:
    per_pod = engine_pod("5120Mi")["containers"][0]["resources"]["limits"]["hugepages-2Mi"]

    assert 8 * int(per_pod.removesuffix("Mi")) <= PROFILE.hugepages_mebibytes


def test_claims_have_as_many_devices_as_the_engines_parallelism_needs() -> None:
    template = of_kind("eks/dra.yaml", "ResourceClaimTemplate")
    resource = of_kind("eks/dra.yaml", "DisaggregatedInference")["spec"]
    requests = template["spec"]["spec"]["devices"]["requests"]
    counts = {each["name"]: each["exactly"]["count"] for each in requests}

    for role in ("prefill", "decode"):
        gpus = resource[role]["parallelism"]["tensor"]
        assert counts == {"gpus": gpus, "efas": PROFILE.efas_for(gpus)}
    [claim] = resource["accelerator"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_nvidias_plugin_hands_out_no_rdma_devices_past_the_efa_plugins_count() -> None:
    assert documents_of_values("device-plugin-nvidia")["mofedEnabled"] is False


def test_terraform_names_only_variables_of_the_module_and_one_subnet_for_engines() -> None:
    known: dict[str, Any] = json.loads((SCHEMAS / "terraform-aws-eks.json").read_text())
    groups = TERRAFORM["eks_managed_node_groups"]

    assert set(TERRAFORM) - {"source", "version"} <= set(known["module"])
    for group in groups.values():
        assert set(group) <= set(known["eks_managed_node_groups"])
    assert groups["p5en"]["instance_types"] == [TYPE]
    assert len(groups["p5en"]["subnet_ids"]) == 1
    assert groups["p5en"]["enable_efa_support"] is True
