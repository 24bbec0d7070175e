# SPDX-License-Identifier: Apache-2.0
"""What is wrong with what offers the nodes' devices: NVIDIA's and AWS's device plugins, and the DRA driver of EFA.

They are known by the names of their images, since they may be deployed by any chart.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tandem_operator.api.names import INSTANCE_TYPE_LABEL
from tandem_operator.kubectl.views.doctor_nodes import accelerated, labels_of
from tandem_operator.kubectl.views.finding import ClusterSeen, Finding, Severity
from tandem_operator.plan.pods import tolerates
from tandem_operator.plan.types import Manifest

_EFA: Final = "aws-efa-k8s-device-plugin"
_NVIDIA: Final = "nvidia/k8s-device-plugin"
_EFA_DRIVER: Final = "aws-dranet"
_VERSION: Final = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)")
_MOUNTS_ALL_DEVICES: Final = ((0, 19, 0), (0, 19, 2))
"""NVIDIA's plugin of these versions gives GPU pods all of the node's InfiniBand devices (NVIDIA/k8s-device-plugin#1692)."""
_WITHOUT_PRIVILEGED_FROM: Final = (0, 5, 0)
"""From here on NVIDIA describes EFA as working with IPC_LOCK alone."""


@dataclass(frozen=True)
class _Plugin:
    """One DaemonSet that offers devices."""

    manifest: Manifest
    image: str

    @property
    def name(self) -> str:
        metadata = self.manifest["metadata"]
        return f"daemonset {metadata.get('namespace', 'default')}/{metadata['name']}"

    @property
    def version(self) -> tuple[int, ...] | None:
        found = _VERSION.match(self.image.partition("@")[0].rpartition(":")[2])
        return tuple(map(int, found.groups())) if found else None

    @property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.manifest["spec"]["template"]["spec"]
        return spec

    @property
    def status(self) -> Mapping[str, int]:
        return self.manifest.get("status") or {}


def plugin_findings(cluster: ClusterSeen) -> Iterator[Finding]:
    """Of the plugins that run, and of nodes that they leave out."""
    if cluster.daemon_sets is None:
        return
    nodes = [node for node, _ in accelerated(cluster.nodes or ())]
    found = {image: tuple(_of_image(cluster.daemon_sets, image)) for image in (_EFA, _NVIDIA, _EFA_DRIVER)}
    for plugin in (each for plugins in found.values() for each in plugins):
        yield from _running(plugin)
    for plugin in (*found[_EFA], *found[_NVIDIA]):
        yield from _left_out(plugin, nodes)
    yield from _versions(found)
    if any(map(_works, found[_EFA])) and any(map(_works, found[_EFA_DRIVER])):
        yield Finding(
            severity=Severity.FAULT,
            subject=found[_EFA_DRIVER][0].name,
            message=f"it and {found[_EFA][0].name} both give out EFA devices; on one node the same device goes to two pods",
            remedy="keep one of them, or keep them on different nodes by their node selectors",
        )


def _of_image(daemon_sets: Sequence[Manifest], name: str) -> Iterator[_Plugin]:
    for manifest in daemon_sets:
        for container in manifest["spec"]["template"]["spec"].get("containers") or ():
            if name in container.get("image", ""):
                yield _Plugin(manifest, container["image"])


def _works(plugin: _Plugin) -> bool:
    return plugin.status.get("desiredNumberScheduled", 0) > 0


def _running(plugin: _Plugin) -> Iterator[Finding]:
    wanted, ready = plugin.status.get("desiredNumberScheduled", 0), plugin.status.get("numberReady", 0)
    if ready < wanted:
        metadata = plugin.manifest["metadata"]
        yield Finding(
            severity=Severity.FAULT,
            subject=plugin.name,
            message=f"{wanted - ready} of its {wanted} pods aren't ready: their nodes' devices aren't offered",
            remedy="see why in the logs of those pods",
            command=f"kubectl --namespace {metadata.get('namespace', 'default')} describe daemonset {metadata['name']}",
        )


def _left_out(plugin: _Plugin, nodes: Sequence[Manifest]) -> Iterator[Finding]:
    """Nodes that the plugin can't come to: for a taint, or for its list of instance types."""
    tolerations = plugin.spec.get("tolerations") or ()
    taints = {
        f"{taint['key']}={taint.get('value', '')}:{taint.get('effect')}": node["metadata"]["name"]
        for node in nodes
        for taint in node.get("spec", {}).get("taints") or ()
        if taint.get("effect") in {"NoSchedule", "NoExecute"}
        and not str(taint.get("key", "")).startswith("node.kubernetes.io/")
        and not any(tolerates(each, taint) for each in tolerations)
    }
    for taint, node in taints.items():
        yield Finding(
            severity=Severity.FAULT,
            subject=plugin.name,
            message=f"it doesn't tolerate {taint}, which node {node} has",
            remedy="add the toleration to its chart's values",
        )
    listed = _instance_types(plugin)
    for instance_type in sorted({labels_of(node).get(INSTANCE_TYPE_LABEL, "") for node in nodes}):
        if listed and instance_type not in listed:
            yield Finding(
                severity=Severity.FAULT,
                subject=plugin.name,
                message=f"its node affinity doesn't list {instance_type}",
                remedy="take a newer version, or add the type to its chart's values (supportedInstanceLabels)",
            )


def _instance_types(plugin: _Plugin) -> frozenset[str]:
    """Those that it is held to; empty: to none."""
    affinity = (plugin.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return frozenset(
        value
        for term in required.get("nodeSelectorTerms") or ()
        for expression in term.get("matchExpressions") or ()
        if (expression.get("key"), expression.get("operator")) == (INSTANCE_TYPE_LABEL, "In")
        for value in expression.get("values") or ()
    )


def _versions(found: Mapping[str, Sequence[_Plugin]]) -> Iterator[Finding]:
    first, last = _MOUNTS_ALL_DEVICES
    for plugin in found[_NVIDIA]:
        arguments = [str(each) for container in plugin.spec["containers"] for each in container.get("args") or ()]
        if (
            found[_EFA]
            and plugin.version
            and first <= plugin.version <= last
            and "--mofed-enabled=false" not in arguments
        ):
            yield Finding(
                severity=Severity.FAULT,
                subject=plugin.name,
                message=f"version {'.'.join(map(str, plugin.version))} mounts all EFA devices into every pod with GPUs",
                remedy="take 0.19.3 or newer, or pass --mofed-enabled=false",
            )
    for plugin in found[_EFA]:
        if plugin.version and plugin.version < _WITHOUT_PRIVILEGED_FROM:
            yield Finding(
                severity=Severity.WARNING,
                subject=plugin.name,
                message=f"version {'.'.join(map(str, plugin.version))} is older than any that engines were described to work with"
                " without running privileged",
                remedy="take v0.5 or newer",
            )
