# SPDX-License-Identifier: Apache-2.0
"""What nodes offer, against what a pod without a node asks for.

The scheduler says `Insufficient vpc.amazonaws.com/efa` both where all devices are taken and where no node will ever have them;
only the second needs somebody to do something else than to wait.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from tandem_operator.api.accelerators import EFA_RESOURCE, GPU_RESOURCE
from tandem_operator.api.status import Reason
from tandem_operator.api.values import amount_of
from tandem_operator.plan.accelerate import HUGEPAGES
from tandem_operator.plan.troubles import Trouble, unscheduled
from tandem_operator.plan.types import Manifest

_PLUGINS: Final = {
    EFA_RESOURCE: "the EFA device plugin (aws-efa-k8s-device-plugin)",
    GPU_RESOURCE: "the NVIDIA device plugin",
}


def wanted_labels(pod: Manifest) -> str | None:
    """The label selector of the nodes that a pod which no node was found for may be on.

    None for a pod that is scheduled or still to be looked at, and for one that may be anywhere: every node of a cluster would be read.
    """
    if not unscheduled(pod):
        return None
    return (
        ",".join(f"{name}={value}" for name, value in sorted((pod["spec"].get("nodeSelector") or {}).items())) or None
    )


def shortages(pods: Iterable[Manifest], offered: Mapping[str, Sequence[Manifest]]) -> Iterator[Trouble]:
    """What no node has of what pods ask for.

    Args:
        pods: the resource's.
        offered: the nodes with the labels of `wanted_labels`.
    """
    for pod in pods:
        labels = wanted_labels(pod)
        nodes = offered.get(labels or "")
        if labels and nodes:
            yield from _shortages_of(pod, labels, nodes)


def _shortages_of(pod: Manifest, labels: str, nodes: Sequence[Manifest]) -> Iterator[Trouble]:
    where = f"{len(nodes)} nodes with {labels}"
    for resource, wanted in _devices(pod).items():
        most = max(_offered(node, resource) for node in nodes)
        if wanted <= most:
            continue
        if resource == HUGEPAGES:
            yield Trouble(
                Reason.HUGE_PAGES_NOT_OFFERED,
                f"engines ask for {wanted / 2**20:f}Mi of huge pages and none of the {where} offers more than {most / 2**20:f}Mi:"
                " remove spec.accelerator.hugepages2Mi (libfabric does without), or have nodes set them aside before the"
                " kubelet starts",
            )
        elif most:
            yield Trouble(
                Reason.DEVICES_NOT_OFFERED,
                f"engines ask for {wanted} {resource} and none of the {where} offers more than {most}: ask for fewer, or see"
                " why its device plugin counts so few",
            )
        else:
            yield Trouble(
                Reason.DEVICE_PLUGIN_MISSING,
                f"none of the {where} offers {resource}: install {_PLUGINS.get(resource, 'its device plugin')} with a"
                " toleration for the nodes' taints, or use spec.accelerator.resourceClaims where a DRA driver has the devices",
            )


def _devices(pod: Manifest) -> dict[str, Decimal]:
    """Huge pages and extended resources that the pod's containers ask for together."""
    found: dict[str, Decimal] = {}
    for container in pod["spec"].get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if "/" in name or name == HUGEPAGES:
                found[name] = found.get(name, Decimal(0)) + amount_of(amount)
    return found


def _offered(node: Manifest, resource: str) -> Decimal:
    return amount_of((node.get("status", {}).get("allocatable") or {}).get(resource, "0"))
