# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes node."""

from copy import deepcopy
from typing import Any, Self

from tandem_operator.api.names import NETWORK_LAYER_LABEL_PREFIX, ZONE_LABEL


class NodeBuilder:
    """Ready, without labels. Every step gives a new builder."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self._manifest = manifest

    @property
    def name(self) -> str:
        return str(self._manifest["metadata"]["name"])

    def in_zone(self, zone: str) -> Self:
        return self.with_label(ZONE_LABEL, zone)

    def under(self, *layers: str) -> Self:
        """In these network nodes, from the top of the network down."""
        builder = self
        for depth, layer in enumerate(layers, start=1):
            builder = builder.with_label(f"{NETWORK_LAYER_LABEL_PREFIX}{depth}", layer)
        return builder

    def with_label(self, label: str, value: str) -> Self:
        manifest = self.build()
        manifest["metadata"]["labels"][label] = value
        return type(self)(manifest)

    def not_ready(self) -> Self:
        manifest = self.build()
        manifest["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        return type(self)(manifest)

    def reported_at(self, time: str) -> Self:
        """Its kubelet has said that it is as it was."""
        manifest = self.build()
        for condition in manifest["status"]["conditions"]:
            condition["lastHeartbeatTime"] = time
        return type(self)(manifest)

    def cordoned(self) -> Self:
        return self._with_spec("unschedulable", value=True)

    def tainted(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        return self._with_spec("taints", value=[{"key": key, "value": value, "effect": effect}])

    def _with_spec(self, field: str, value: Any) -> Self:
        manifest = self.build()
        manifest.setdefault("spec", {})[field] = value
        return type(self)(manifest)

    def build(self) -> dict[str, Any]:
        return deepcopy(self._manifest)


def a_node(name: str = "node-a") -> NodeBuilder:
    return NodeBuilder(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )
