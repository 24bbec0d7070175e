# SPDX-License-Identifier: Apache-2.0
"""What the operator needs to be allowed, and why.

The chart's roles are tested against this table, and the table against the requests that the operator makes.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tandem_operator.api import names


class Scope(Enum):
    """Where a rule has to hold."""

    CLUSTER = "cluster"
    """Everywhere, also when only some namespaces are served: the objects are in no namespace."""
    SERVED = "served"
    """In every namespace with resources: by a ClusterRole, or by a Role in each served namespace."""
    OWN = "own"
    """In the namespace that the operator runs in."""


@dataclass(frozen=True)
class Rule:
    """Rights to one kind of object, as in an RBAC rule."""

    scope: Scope
    group: str
    resource: str
    """In the plural; with a subresource as `plural/subresource`."""
    verbs: tuple[str, ...]
    why: str

    def manifest(self) -> dict[str, Any]:
        """The rule as in a Role."""
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": list(self.verbs)}


_CHILD: Final = ("create", "delete", "get", "list", "patch", "watch")

RULES: Final = (
    Rule(Scope.SERVED, "", "configmaps", _CHILD, "children: the engines' launch scripts"),
    Rule(Scope.CLUSTER, "", "nodes", ("get", "list", "watch"), "zones and network layers go into the peer tables"),
    Rule(
        Scope.SERVED,
        "",
        "pods",
        ("get", "list", "patch", "watch"),
        "peer tables and routable labels are written to engine pods; `get` is only passed on to the front door's Role",
    ),
    Rule(Scope.SERVED, "", "pods/eviction", ("create",), "engines whose pairs keep failing are restarted"),
    Rule(
        Scope.SERVED,
        "",
        "secrets",
        ("create",),
        "the key of each exchange; RBAC can't grant metadata without contents, so the operator reads no Secret: whether one "
        "exists it learns by creating it, in a dry run when it is the user's",
    ),
    Rule(Scope.SERVED, "", "serviceaccounts", _CHILD, "children: the front door's account"),
    Rule(Scope.SERVED, "", "services", _CHILD, "children"),
    Rule(
        Scope.SERVED,
        "apps",
        "controllerrevisions",
        _CHILD,
        "children: what each revision's engines are made from, to make them again or go back to them",
    ),
    Rule(Scope.SERVED, "apps", "deployments", _CHILD, "children: front doors"),
    Rule(Scope.SERVED, "apps", "statefulsets", _CHILD, "children: engines"),
    Rule(Scope.OWN, "coordination.k8s.io", "leases", ("create", "get", "update"), "one of several replicas works"),
    Rule(Scope.SERVED, "events.k8s.io", "events", ("create",), "transitions are reported as Events on the resource"),
    Rule(Scope.SERVED, "networking.k8s.io", "networkpolicies", _CHILD, "children: who may connect to engines"),
    Rule(Scope.SERVED, "policy", "poddisruptionbudgets", _CHILD, "children: what evictions may take at one time"),
    Rule(
        Scope.SERVED,
        "rbac.authorization.k8s.io",
        "rolebindings",
        _CHILD,
        "children: the front door discovers engines by listing pods",
    ),
    Rule(
        Scope.SERVED,
        "rbac.authorization.k8s.io",
        "roles",
        _CHILD,
        "children; neither `escalate` nor `bind`: the operator passes on only rights that it has itself",
    ),
    Rule(Scope.SERVED, names.GROUP, names.PLURAL, ("get", "list", "watch"), "the resources; never written"),
    Rule(
        Scope.SERVED,
        names.GROUP,
        f"{names.PLURAL}/finalizers",
        ("update",),
        "children block their owner's foreground deletion, which the admission plug-in "
        "OwnerReferencesPermissionEnforcement (on OpenShift) allows only so",
    ),
    Rule(Scope.SERVED, names.GROUP, f"{names.PLURAL}/status", ("patch",), "status"),
    Rule(Scope.SERVED, names.GROUP, names.SCALER_PLURAL, _CHILD, "children: what autoscalers turn"),
    Rule(Scope.SERVED, names.GROUP, f"{names.SCALER_PLURAL}/status", ("patch",), "status"),
)
"""In the order of group and resource, so that none is missed or repeated."""
