# SPDX-License-Identifier: Apache-2.0
"""An engine pod, as its StatefulSet and the kubelet make it."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Self

from tandem_connector.contract.environment import EXCHANGE_PORT
from tandem_connector.contract.types import Role
from tandem_operator.api.names import (
    DATA_LABEL,
    ENGINE_LABEL,
    PEERS_ANNOTATION,
    RESOURCE_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    ROUTABLE_LABEL,
    TENSOR_LABEL,
    role_name,
)


class PodBuilder:
    """Made, but neither scheduled nor started. Every step gives a new builder."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self._manifest = manifest

    def of_revision(self, revision: str) -> Self:
        return self.with_label(REVISION_LABEL, revision)

    def of_template(self, hash_: str) -> Self:
        """Which of its StatefulSet's templates it was made from."""
        return self.with_label("controller-revision-hash", hash_)

    def with_label(self, label: str, value: str) -> Self:
        return self._with("metadata", "labels", label, value=value)

    def with_ranks(self, ranks: int) -> Self:
        """Its data-parallel ranks."""
        return self.with_label(DATA_LABEL, str(ranks))

    def listening_on(self, port: int) -> Self:
        """Where its engine takes its peers' messages, as its own template says."""
        return self._with(
            "spec",
            "containers",
            value=[{"name": "engine", "ports": [{"name": "side-channel", "containerPort": port}]}],
        )

    def on_node(self, node: str) -> Self:
        return self._with("spec", "nodeName", value=node)

    def with_tolerations(self, *tolerations: dict[str, str]) -> Self:
        return self._with("spec", "tolerations", value=list(tolerations))

    def with_address(self, ip: str) -> Self:
        return self._with("status", "podIP", value=ip)

    def running(self, *, restarts: int = 0, since: str = "2026-01-01T00:00:00Z") -> Self:
        """Its engine's process runs; it isn't ready yet."""
        return self.with_container(ready=False, restarts=restarts, state={"running": {"startedAt": since}})

    def ready(self) -> Self:
        """Its engine answers, after `running`."""
        return self._with("status", "conditions", value=[{"type": "Ready", "status": "True"}])

    def with_container(
        self, *, state: dict[str, Any], last: dict[str, Any] | None = None, restarts: int = 0, ready: bool = False
    ) -> Self:
        """The kubelet's words on the engine's container."""
        container = {
            "name": "engine",
            "ready": ready,
            "restartCount": restarts,
            "state": state,
            "lastState": last or {},
        }
        return self._with("status", "containerStatuses", value=[container])

    def unready_since(self, time: str) -> Self:
        """Its engine doesn't answer any more, or not yet."""
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": time}
        return self._with("status", "conditions", value=[condition])

    def created(self, time: str) -> Self:
        return self._with("metadata", "creationTimestamp", value=time)

    def with_condition(self, kind: str, status: str, message: str = "") -> Self:
        return self._with("status", "conditions", value=[{"type": kind, "status": status, "message": message}])

    def terminating(self) -> Self:
        return self._with("metadata", "deletionTimestamp", value="2026-01-01T00:00:00Z")

    def ended(self, phase: str = "Failed") -> Self:
        return self._with("status", "phase", value=phase)

    def routable(self) -> Self:
        return self.with_label(ROUTABLE_LABEL, "true")

    def with_peers(self, annotation: str) -> Self:
        return self._with("metadata", "annotations", PEERS_ANNOTATION, value=annotation)

    def patched(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Self:
        """As after a server-side apply of all that the operator owns on it."""
        manifest = self.build()
        manifest["metadata"]["labels"].pop(ROUTABLE_LABEL, None)
        manifest["metadata"]["labels"].update(labels)
        manifest["metadata"]["annotations"] = dict(annotations)
        return type(self)(manifest)

    def build(self) -> dict[str, Any]:
        return deepcopy(self._manifest)

    def _with(self, *path: str, value: Any) -> Self:
        manifest = self.build()
        at = manifest
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
        return type(self)(manifest)


def a_pod(role: Role = Role.DECODE, ordinal: int = 0, resource: str = "qwen") -> PodBuilder:
    number = ordinal + (0 if role is Role.PREFILL else 100)
    return PodBuilder(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{role_name(resource, role)}-{ordinal}",
                "namespace": "models",
                "uid": f"00000000-0000-4000-8000-{number:012d}",
                "labels": {
                    ENGINE_LABEL: resource,
                    RESOURCE_LABEL: resource,
                    ROLE_LABEL: str(role),
                    REVISION_LABEL: "r1",
                    TENSOR_LABEL: "1",
                },
            },
            "spec": {
                "containers": [{"name": "engine", "ports": [{"name": "side-channel", "containerPort": EXCHANGE_PORT}]}]
            },
            "status": {"phase": "Pending"},
        }
    )


def a_ready_pod(role: Role = Role.DECODE, ordinal: int = 0, resource: str = "qwen") -> PodBuilder:
    """It runs, answers and has an address of its own."""
    host = ordinal + (1 if role is Role.PREFILL else 101)
    return a_pod(role, ordinal, resource).with_address(f"10.0.0.{host}").running().ready()
