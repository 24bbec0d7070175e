# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a cluster for Tandem, and what to do about it."""

from collections.abc import Iterator

from tandem_operator.api.accelerators import EFA_RESOURCE, GPU_RESOURCE
from tandem_operator.api.base import ApiModel
from tandem_operator.api.names import ZONE_LABEL
from tandem_operator.kubectl.views.doctor_installation import installation_findings
from tandem_operator.kubectl.views.doctor_nodes import accelerated, amount, node_findings
from tandem_operator.kubectl.views.doctor_plugins import plugin_findings
from tandem_operator.kubectl.views.finding import ClusterSeen, Finding, Severity
from tandem_operator.plan.accelerate import HUGEPAGES
from tandem_operator.plan.pods import is_ready


class NodeView(ApiModel):
    """What one node with GPUs offers."""

    name: str
    instance_type: str
    ready: bool
    zone: str | None
    gpus: str
    """Offered, of those that the instance type has."""
    efas: str
    """As `gpus`."""
    hugepages_mebibytes: int


class Diagnosis(ApiModel):
    """The cluster as it was looked at."""

    nodes: tuple[NodeView, ...]
    findings: tuple[Finding, ...]
    """Faults first."""
    unread: tuple[str, ...]
    """What couldn't be read, and why: nothing is known of it."""

    @property
    def is_well(self) -> bool:
        """Whether there is no fault."""
        return all(each.severity is not Severity.FAULT for each in self.findings)


def diagnose(cluster: ClusterSeen) -> Diagnosis:
    """All that is found."""
    found = (*installation_findings(cluster), *node_findings(cluster), *plugin_findings(cluster), *_hints(cluster))
    order = list(Severity)
    return Diagnosis(
        nodes=tuple(_views(cluster)),
        findings=tuple(sorted(found, key=lambda finding: order.index(finding.severity))),
        unread=cluster.unread,
    )


def _views(cluster: ClusterSeen) -> Iterator[NodeView]:
    for node, profile in accelerated(cluster.nodes or ()):
        yield NodeView(
            name=node["metadata"]["name"],
            instance_type=profile.instance_type,
            ready=is_ready(node),
            zone=node["metadata"]["labels"].get(ZONE_LABEL),
            gpus=f"{amount(node, GPU_RESOURCE)}/{profile.gpus}",
            efas=f"{amount(node, EFA_RESOURCE)}/{profile.efas}",
            hugepages_mebibytes=int(amount(node, HUGEPAGES) / 2**20),
        )


def _hints(cluster: ClusterSeen) -> Iterator[Finding]:
    """What is no object of the API."""
    node = next((each for each, profile in accelerated(cluster.nodes or ()) if profile.has_efa), None)
    if node is None:
        return
    name = node["metadata"]["name"]
    yield Finding(
        severity=Severity.HINT,
        subject="memlock",
        message="whether containers may pin memory can't be seen from here; engines run as uid 0 with IPC_LOCK, which needs no limit"
        " but for pods with hostUsers: false",
        remedy="on a node, `grep locked /proc/$(pidof containerd)/limits` says what processes get without IPC_LOCK",
        command=f"kubectl debug node/{name} -it --image debian:12-slim -- chroot /host sh",
    )
    yield Finding(
        severity=Severity.HINT,
        subject="security group",
        message="EFA needs a security group that lets all traffic to and from itself through, which is no object of Kubernetes",
        remedy="in the group of these nodes, allow all protocols from the group itself and to it, not only a range of addresses",
        command="aws ec2 describe-security-groups --group-ids <group of the nodes>",
    )
    yield Finding(
        severity=Severity.HINT,
        subject="NIXL and libfabric of the engines' image",
        message="the image is looked at when an engine starts (NixlMissing), and over what it exchanges when it runs (FabricActive)",
        remedy="see those conditions of a resource with this image",
        command="kubectl tandem explain <resource>",
    )
