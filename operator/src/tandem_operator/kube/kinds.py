# SPDX-License-Identifier: Apache-2.0
"""The kinds of objects that the operator reads and writes, and their URLs. Knowing them saves discovery requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem_operator.api import names
from tandem_operator.plan.types import ObjectKey


@dataclass(frozen=True)
class Kind:
    """A kind as the API server serves it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Path of a collection (all namespaces when `namespace` is None), of an object, or of its subresource."""
        parts = ["apis" if self.group else "api", self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part is not None]
        return "/" + "/".join(parts)


RESOURCE: Final = Kind(names.API_VERSION, names.KIND, names.PLURAL)
SCALER: Final = Kind(names.API_VERSION, names.SCALER_KIND, names.SCALER_PLURAL)
POD: Final = Kind("v1", "Pod", "pods")
NODE: Final = Kind("v1", "Node", "nodes", namespaced=False)
CONTROLLER_REVISION: Final = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
STATEFUL_SET: Final = Kind("apps/v1", "StatefulSet", "statefulsets")
DEPLOYMENT: Final = Kind("apps/v1", "Deployment", "deployments")
DISRUPTION_BUDGET: Final = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE: Final = Kind("coordination.k8s.io/v1", "Lease", "leases")
EVENT: Final = Kind("events.k8s.io/v1", "Event", "events")
SECRET: Final = Kind("v1", "Secret", "secrets")

CHILD_KINDS: Final = (
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    Kind("v1", "ConfigMap", "configmaps"),
    Kind("v1", "Service", "services"),
    CONTROLLER_REVISION,
    STATEFUL_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    SCALER,
)
"""Everything that a plan may contain as an object to apply."""
LABELLED_KINDS: Final = (POD, *CHILD_KINDS)
"""Everything that carries a resource's label: its changes are watched."""

_BY_NAME: Final[Mapping[tuple[str, str], Kind]] = {
    (each.api_version, each.kind): each for each in (RESOURCE, POD, *CHILD_KINDS)
}


def kind_of(key: ObjectKey) -> Kind:
    """The kind of a planned object.

    Raises:
        KeyError: plans are not supposed to contain it: add it to `CHILD_KINDS` and to the permissions.
    """
    return _BY_NAME[key.api_version, key.kind]


def controller_of(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference that says `controller: true`, if there is one."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)
