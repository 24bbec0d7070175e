# SPDX-License-Identifier: Apache-2.0
"""What an engine pod needs from its node, and which nodes it may be on."""

from typing import Any, Final

from tandem_connector.contract.types import Role
from tandem_operator.api.names import (
    ENGINE_LABEL,
    HOSTNAME_LABEL,
    NETWORK_LAYER_LABEL_PREFIX,
    ZONE_LABEL,
)
from tandem_operator.plan.children import selector
from tandem_operator.plan.resolved import Pool, Resolved

HUGEPAGES: Final = "hugepages-2Mi"

_LAYER_WEIGHTS: Final = {4: 80, 3: 40, 2: 20, 1: 10}
"""Of network layers, deepest first. The bottom layer is 3 or 4 by instance type (4 on P6); a layer that nodes don't have adds
nothing. Nodes that share a layer share all layers above it, so the sum grows with the nearness."""
_SPREAD_WEIGHT: Final = 100


def resources(pool: Pool) -> dict[str, Any]:
    """Resources of the engine's container. Devices and huge pages are requested exactly as limited, as Kubernetes requires.

    Huge pages alone would be refused: cpu or memory must be requested too, which `resolve` sees to.
    """
    devices = pool.devices
    exact = {
        **({devices.gpu_resource: str(devices.gpus)} if devices.gpus else {}),
        **({devices.efa_resource: str(devices.efas)} if devices.efas else {}),
        **({HUGEPAGES: devices.hugepages} if devices.hugepages else {}),
    }
    requests, limits = {**pool.requests, **exact}, {**pool.limits, **exact}
    return {
        **({"requests": requests} if requests else {}),
        **({"limits": limits} if limits else {}),
        **({"claims": [{"name": claim["name"]} for claim in devices.claims]} if devices.claims else {}),
    }


def environment(pool: Pool) -> list[dict[str, str]]:
    """Settings of libfabric, only where KV goes over EFA."""
    if not pool.devices.uses_efa:
        return []
    # Unpinned, NIXL falls back from efa to tcp without a word. Pods share no /dev/shm, so libfabric's shortcut through
    # it gains nothing, and it is reported to break registrations of GPU memory (NVIDIA Dynamo's EFA guide).
    settings = {"FI_PROVIDER": "efa", "FI_EFA_ENABLE_SHM_TRANSFER": "0"}
    if pool.devices.hugepages is None:
        # Unset means: try, and fall back. A pod without huge pages would be killed by SIGBUS on old container runtimes.
        settings["FI_EFA_USE_HUGE_PAGE"] = "0"
    return [{"name": name, "value": value} for name, value in settings.items()]


def security_context(pool: Pool) -> dict[str, Any]:
    """EFA pins memory, which takes IPC_LOCK; the kernel honours it for uid 0 only, since Kubernetes has no ambient capabilities.

    Not privileged unless asked for: a privileged container sees all of the node's devices, and NIXL opens every EFA it sees.
    """
    if pool.devices.privileged:
        return {"privileged": True, "runAsUser": 0}
    if not pool.devices.uses_efa:
        return {"allowPrivilegeEscalation": False}
    return {"allowPrivilegeEscalation": False, "runAsUser": 0, "capabilities": {"add": ["IPC_LOCK"]}}


def affinity(resolved: Resolved, role: Role) -> dict[str, Any]:
    """Near to all engines of the resource, apart from the other role's hosts; empty when nothing is asked for.

    The required term refers to one label that both roles carry: the scheduler lets the first pod that matches its own term
    go anywhere. P asking for D and D asking for P would wait for each other for ever.
    """
    place = resolved.place
    together = {"labelSelector": {"matchLabels": {ENGINE_LABEL: resolved.name}}}
    near: dict[str, Any] = {}
    if place.single_zone:
        near["requiredDuringSchedulingIgnoredDuringExecution"] = [{**together, "topologyKey": ZONE_LABEL}]
    if place.near_network:
        # Preferred only: a provisioner such as Karpenter doesn't know these labels before the node exists.
        near["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": weight,
                "podAffinityTerm": {**together, "topologyKey": f"{NETWORK_LAYER_LABEL_PREFIX}{layer}"},
            }
            for layer, weight in _LAYER_WEIGHTS.items()
        ]
    apart = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": _SPREAD_WEIGHT,
                "podAffinityTerm": {
                    "labelSelector": {"matchLabels": selector(resolved.name, role.other)},
                    "topologyKey": HOSTNAME_LABEL,
                },
            }
        ]
    }
    return {
        **({"podAffinity": near} if near else {}),
        **({"podAntiAffinity": apart} if place.spread_roles else {}),
    }


def placement(resolved: Resolved, role: Role) -> dict[str, Any]:
    """The fields of a pod's spec that decide its node."""
    place = resolved.place
    near = affinity(resolved, role)
    return {
        **({"affinity": near} if near else {}),
        **({"nodeSelector": dict(place.node_selector)} if place.node_selector else {}),
        **({"tolerations": [dict(toleration) for toleration in place.tolerations]} if place.tolerations else {}),
        **({"schedulerName": place.scheduler_name} if place.scheduler_name else {}),
        **({"priorityClassName": place.priority_class_name} if place.priority_class_name else {}),
    }
