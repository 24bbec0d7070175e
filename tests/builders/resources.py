# SPDX-License-Identifier: Apache-2.0
"""A DisaggregatedInference, as its author writes it and as the API server gives it back."""

from copy import deepcopy
from typing import Any, Self

from tandem_connector.contract.types import Role
from tandem_operator.api.names import API_VERSION, KIND
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.api.status import Status

UID = "00000000-0000-4000-8000-0000000000aa"


class ResourceBuilder:
    """Engines on CPUs, one prefill and one decode, until told otherwise. Every step gives a new builder."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self._manifest = manifest

    def with_spec(self, *path: str, value: Any) -> Self:
        """The field at `path` under `spec` (camelCase) set to `value`."""
        return self._with("spec", *path, value=value)

    def named(self, name: str) -> Self:
        return self._with("metadata", "name", value=name)

    def in_namespace(self, namespace: str) -> Self:
        return self._with("metadata", "namespace", value=namespace)

    def of_generation(self, generation: int) -> Self:
        return self._with("metadata", "generation", value=generation)

    def being_deleted(self) -> Self:
        return self._with("metadata", "deletionTimestamp", value="2026-01-01T00:00:00Z")

    def annotated(self, name: str, value: str) -> Self:
        return self._with("metadata", "annotations", name, value=value)

    def with_prefill(self, replicas: int) -> Self:
        return self.with_spec("prefill", "replicas", value=replicas)

    def with_decode(self, replicas: int) -> Self:
        return self.with_spec("decode", "replicas", value=replicas)

    def with_tensor(self, tensor: int, *roles: Role) -> Self:
        """The tensor-parallel size of these roles, or of both."""
        builder = self
        for role in roles or tuple(Role):
            builder = builder.with_spec(str(role), "parallelism", value={"tensor": tensor})
        return builder

    def with_data(self, data: int, *roles: Role) -> Self:
        """The data-parallel ranks of these roles, or of both."""
        builder = self
        for role in roles or tuple(Role):
            builder = builder.with_spec(str(role), "parallelism", "data", value=data)
        return builder

    def on(self, instance_type: str) -> Self:
        return self.with_spec("accelerator", "instanceType", value=instance_type)

    def pulling(self) -> Self:
        """With vLLM's NixlConnector in place of the exchange."""
        return self.with_spec("transfer", "protocol", value="NixlPull")

    def with_image(self, image: str) -> Self:
        return self.with_spec("engine", "image", value=image)

    def with_arguments(self, *arguments: str) -> Self:
        return self.with_spec("engine", "args", value=list(arguments))

    def with_overlay(self, role: Role, overlay: dict[str, Any]) -> Self:
        return self.with_spec(str(role), "podTemplate", value=overlay)

    def with_status(self, status: Status | None) -> Self:
        value = status.model_dump(by_alias=True, mode="json") if status else None
        return self._with("status", value=value)

    def manifest(self) -> dict[str, Any]:
        """The object as JSON."""
        return deepcopy(self._manifest)

    def build(self) -> DisaggregatedInference:
        """The object as the operator reads it."""
        return DisaggregatedInference.model_validate(self._manifest)

    def _with(self, *path: str, value: Any) -> Self:
        manifest = deepcopy(self._manifest)
        at = manifest
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
        return type(self)(manifest)


def a_resource(name: str = "qwen") -> ResourceBuilder:
    """The smallest resource there is."""
    return ResourceBuilder(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "namespace": "models", "uid": UID, "generation": 1},
            "spec": {
                "model": {"name": "Qwen/Qwen3-32B"},
                "engine": {"image": "vllm/vllm-openai:v0.32.0"},
                "accelerator": {"instanceType": "none"},
                "prefill": {},
                "decode": {},
            },
        }
    )
