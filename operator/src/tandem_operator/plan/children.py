# SPDX-License-Identifier: Apache-2.0
"""What all children have in common: their labels and their owner.

Nothing is taken over from the resource's own labels and annotations: a GitOps tool's tracking id would follow, and the tool
would take the children for its own.
"""

from collections.abc import Mapping
from typing import Any, Final

from tandem_operator.api.names import API_VERSION, KIND, RESOURCE_LABEL, ROLE_LABEL, SCALER_KIND
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.types import Manifest, ObjectKey

MANAGED_BY: Final = "tandem"
ENGINE_APPLICATION: Final = "vllm"
FRONT_DOOR_APPLICATION: Final = "vllm-router"

KINDS: Final = frozenset(
    {
        "ConfigMap",
        "Service",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ControllerRevision",
        "StatefulSet",
        "Deployment",
        "PodDisruptionBudget",
        "NetworkPolicy",
        SCALER_KIND,
    }
)
"""All kinds that are planned: another kind among the owned objects is someone else's and stays."""


def selector(resource: str, component: str) -> dict[str, str]:
    """The labels that find a component's pods. A set's selector can never be changed, so these two are all there will be."""
    return {RESOURCE_LABEL: resource, ROLE_LABEL: str(component)}


def labels(resource: str, component: str, application: str) -> dict[str, str]:
    """The labels of a child; `component` is a role or `front-door`."""
    return {
        "app.kubernetes.io/name": application,
        "app.kubernetes.io/instance": resource,
        "app.kubernetes.io/component": str(component),
        "app.kubernetes.io/part-of": "tandem",
        "app.kubernetes.io/managed-by": MANAGED_BY,
        **selector(resource, component),
    }


def metadata(
    resolved: Resolved, name: str, of: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Metadata of a child with the labels `of`: in the resource's namespace, deleted with the resource."""
    return {
        "name": name,
        "namespace": resolved.namespace,
        "labels": dict(of),
        **({"annotations": dict(annotations)} if annotations else {}),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": resolved.name,
                "uid": resolved.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def key_of(manifest: Manifest) -> ObjectKey:
    """What names a manifest in its namespace."""
    return ObjectKey(manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"])
