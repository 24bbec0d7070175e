# SPDX-License-Identifier: Apache-2.0
"""A StatefulSet and a Deployment with the status that their controllers give them, and a scaler."""

from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import API_VERSION, SCALER_KIND, front_door_name, role_name

TEMPLATE = "t1"
"""The template hash of pods that are up to date."""


def a_set(role: Role, *, resource: str = "qwen", seen: bool = True, current: str = TEMPLATE) -> dict[str, Any]:
    """Its controller wants pods of `TEMPLATE`; it replaces some while `current` differs. Not `seen`: just changed."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": role_name(resource, role), "uid": f"set-{role}", "generation": 2},
        "spec": {"replicas": 1, "template": {"spec": {}}},
        "status": {"observedGeneration": 2 if seen else 1, "currentRevision": current, "updateRevision": TEMPLATE},
    }


def a_deployment(
    *, resource: str = "qwen", available: int = 1, replicas: int = 1, conditions: tuple[dict[str, str], ...] = ()
) -> dict[str, Any]:
    """The front door's, of which `available` of `replicas` pods are."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": front_door_name(resource), "uid": "deployment", "generation": 1},
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "availableReplicas": available,
            "conditions": list(conditions),
        },
    }


def a_scaler(role: Role, replicas: int, *, resource: str = "qwen") -> dict[str, Any]:
    """Somebody asks it for so many engines."""
    return {
        "apiVersion": API_VERSION,
        "kind": SCALER_KIND,
        "metadata": {
            "name": role_name(resource, role),
            "namespace": "models",
            "uid": f"scaler-{role}",
            "generation": 3,
        },
        "spec": {"replicas": replicas},
    }
