# SPDX-License-Identifier: Apache-2.0
"""What is wrong with nodes: devices, huge pages, labels, taints, zones."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from tandem_operator.api.accelerators import EFA_RESOURCE, GPU_RESOURCE, Profile, profile_of
from tandem_operator.api.names import INSTANCE_TYPE_LABEL, NETWORK_LAYER_LABEL_PREFIX, ZONE_LABEL
from tandem_operator.api.values import amount_of
from tandem_operator.kubectl.views.finding import ClusterSeen, Finding, Severity
from tandem_operator.plan.accelerate import HUGEPAGES
from tandem_operator.plan.pods import is_ready, tolerates
from tandem_operator.plan.types import Manifest

GPU_TOLERATION = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
"""What engines tolerate without being told to."""
_PLUGINS = {GPU_RESOURCE: "NVIDIA's device plugin", EFA_RESOURCE: "the EFA device plugin (aws-efa-k8s-device-plugin)"}


def accelerated(nodes: Iterable[Manifest]) -> Iterator[tuple[Manifest, Profile]]:
    """The nodes of instance types with GPUs that a resource may name."""
    for node in nodes:
        profile = profile_of(labels_of(node).get(INSTANCE_TYPE_LABEL, ""))
        if profile and profile.gpus:
            yield node, profile


def amount(node: Manifest, resource: str) -> Decimal:
    """What of a resource the node offers to pods, taken or not."""
    return amount_of((node.get("status", {}).get("allocatable") or {}).get(resource, "0"))


def labels_of(node: Manifest) -> Mapping[str, str]:
    """A node's labels."""
    return node["metadata"].get("labels") or {}


def node_findings(cluster: ClusterSeen) -> Iterator[Finding]:
    """Of all nodes with GPUs."""
    if cluster.nodes is None:
        return
    found = list(accelerated(cluster.nodes))
    for node, profile in found:
        name = f"node {node['metadata']['name']}"
        yield from _readiness(node, name)
        yield from _devices(node, profile, name)
        yield from _labels(node, profile, name)
        yield from _hugepages(node, profile, name, cluster.resources or ())
        yield from _taints(node, name, cluster.resources or ())
    yield from _zones(found)
    yield from _strangers(cluster.nodes, any_known=bool(found))


def _readiness(node: Manifest, name: str) -> Iterator[Finding]:
    if not is_ready(node):
        yield Finding(
            severity=Severity.FAULT,
            subject=name,
            message="it isn't ready: engines on it take no turns",
            remedy="see its conditions, and replace it if it doesn't come back",
            command=f"kubectl describe {name}",
        )
    elif node.get("spec", {}).get("unschedulable"):
        yield Finding(
            severity=Severity.WARNING,
            subject=name,
            message="it is cordoned: no new engine comes to it",
            remedy="uncordon it when whatever it was cordoned for is over",
            command=f"kubectl uncordon {node['metadata']['name']}",
        )


def _devices(node: Manifest, profile: Profile, name: str) -> Iterator[Finding]:
    for resource, has in ((GPU_RESOURCE, profile.gpus), (EFA_RESOURCE, profile.efas)):
        offered, plugin = amount(node, resource), _PLUGINS[resource]
        if not offered and has:
            yield Finding(
                severity=Severity.FAULT,
                subject=name,
                message=f"it offers no {resource}; a {profile.instance_type} has {has}",
                remedy=f"run {plugin} on it, or use spec.accelerator.resourceClaims where a DRA driver has the devices",
                command="kubectl get daemonsets --all-namespaces --output wide",
            )
        elif offered < has:
            yield Finding(
                severity=Severity.FAULT,
                subject=name,
                message=f"it offers {offered} {resource}; a {profile.instance_type} has {has}",
                remedy=f"the log of {plugin} on it says which devices it takes for broken, or which interfaces aren't EFA",
                command=f"kubectl describe {name}",
            )


def _labels(node: Manifest, profile: Profile, name: str) -> Iterator[Finding]:
    labels = labels_of(node)
    if not labels.get(ZONE_LABEL):
        yield Finding(
            severity=Severity.FAULT if profile.has_efa else Severity.WARNING,
            subject=name,
            message=f"it has no label {ZONE_LABEL}, by which engines are kept in one zone: EFA doesn't cross zones",
            remedy="the cloud provider sets it: see that its controller runs; or set it yourself",
            command=f"kubectl label {name} {ZONE_LABEL}=<zone>",
        )
    if profile.has_efa and not any(label.startswith(NETWORK_LAYER_LABEL_PREFIX) for label in labels):
        yield Finding(
            severity=Severity.WARNING,
            subject=name,
            message=f"it has no labels {NETWORK_LAYER_LABEL_PREFIX}*: pairs can't be made of engines that are near each other",
            remedy="the AWS cloud provider sets them, with the right to ec2:DescribeInstanceTopology",
        )


def _hugepages(node: Manifest, profile: Profile, name: str, resources: Iterable[Manifest]) -> Iterator[Finding]:
    offered = amount(node, HUGEPAGES)
    for resource in resources:
        accelerator = resource["spec"].get("accelerator") or {}
        wanted = amount_of(accelerator.get("hugepages2Mi") or "0")
        if accelerator.get("instanceType") == profile.instance_type and wanted > offered:
            metadata = resource["metadata"]
            yield Finding(
                severity=Severity.FAULT,
                subject=name,
                message=f"it offers {offered / 2**20:f}Mi of huge pages, and {metadata['namespace']}/{metadata['name']} asks for"
                f" {wanted / 2**20:f}Mi",
                remedy="remove spec.accelerator.hugepages2Mi (libfabric does without), or have the node set them aside before its"
                " kubelet starts",
                command=f"kubectl --namespace {metadata['namespace']} edit pdi {metadata['name']}",
            )


def _taints(node: Manifest, name: str, resources: Iterable[Manifest]) -> Iterator[Finding]:
    known: list[Mapping[str, Any]] = [GPU_TOLERATION]
    for resource in resources:
        known += (resource["spec"].get("placement") or {}).get("tolerations") or ()
    for taint in node.get("spec", {}).get("taints") or ():
        if str(taint.get("key", "")).startswith("node.kubernetes.io/"):
            continue  # Of a state that is told by itself: not ready, cordoned, out of memory.
        if taint.get("effect") != "PreferNoSchedule" and not any(tolerates(each, taint) for each in known):
            yield Finding(
                severity=Severity.WARNING,
                subject=name,
                message=f"engines don't tolerate its taint {taint['key']}={taint.get('value', '')}:{taint.get('effect')}",
                remedy="add a toleration to spec.placement.tolerations of resources that are to use it",
            )


def _zones(found: Iterable[tuple[Manifest, Profile]]) -> Iterator[Finding]:
    zones: dict[str, dict[str, int]] = {}
    for node, profile in found:
        if profile.has_efa and (zone := labels_of(node).get(ZONE_LABEL)):
            counts = zones.setdefault(profile.instance_type, {})
            counts[zone] = counts.get(zone, 0) + 1
    for instance_type, counts in zones.items():
        if len(counts) > 1:
            listed = ", ".join(f"{count} in {zone}" for zone, count in sorted(counts.items()))
            yield Finding(
                severity=Severity.WARNING,
                subject=f"{instance_type} nodes",
                message=f"they are in several zones ({listed}), and all engines of a resource are in one, the first one's",
                remedy="choose the zone with enough nodes by spec.placement.nodeSelector",
            )


def _strangers(nodes: Iterable[Manifest], *, any_known: bool) -> Iterator[Finding]:
    unknown = sorted(
        {
            labels_of(node).get(INSTANCE_TYPE_LABEL, "")
            for node in nodes
            if amount(node, GPU_RESOURCE) and profile_of(labels_of(node).get(INSTANCE_TYPE_LABEL, "")) is None
        }
    )
    for instance_type in unknown:
        yield Finding(
            severity=Severity.WARNING,
            subject=f"{instance_type or 'unlabelled'} nodes",
            message=f"they offer {GPU_RESOURCE}, but spec.accelerator.instanceType can't name them",
            remedy=f"nodes need the label {INSTANCE_TYPE_LABEL} with one of the types in docs/reference/api.md",
        )
    if not any_known and not unknown:
        yield Finding(
            severity=Severity.WARNING,
            subject="nodes",
            message="none has GPUs: only resources with instanceType none can run",
            remedy="add nodes of a type in docs/reference/api.md; autoscalers may still make some when engines wait for them",
            command=f"kubectl get nodes --label-columns {INSTANCE_TYPE_LABEL}",
        )
