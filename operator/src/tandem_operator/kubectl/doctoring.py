# SPDX-License-Identifier: Apache-2.0
"""Reads what `doctor` looks at, as far as there is the right to."""

from typing import Final

from tandem_operator.kube.client import Client, Json
from tandem_operator.kube.kinds import DEPLOYMENT, NODE, RESOURCE, Kind
from tandem_operator.kubectl.reading import optional
from tandem_operator.kubectl.views.finding import ClusterSeen

_DAEMON_SET: Final = Kind("apps/v1", "DaemonSet", "daemonsets")
_DEFINITION: Final = Kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
_NAMESPACE: Final = Kind("v1", "Namespace", "namespaces", namespaced=False)
_OPERATOR: Final = "app.kubernetes.io/part-of=tandem,app.kubernetes.io/component=operator"


async def look_at_cluster(client: Client) -> ClusterSeen:
    """The cluster; None, and a word why, for what couldn't be read."""
    unread: list[str] = []

    async def all_of(kind: Kind, selector: str = "") -> tuple[Json, ...] | None:
        before = len(unread)
        found = await optional(client, kind, None, unread, selector)
        return tuple(found) if len(unread) == before else None

    return ClusterSeen(
        nodes=await all_of(NODE),
        daemon_sets=await all_of(_DAEMON_SET),
        operators=await all_of(DEPLOYMENT, _OPERATOR),
        definitions=await all_of(_DEFINITION),
        namespaces=await all_of(_NAMESPACE),
        resources=await all_of(RESOURCE),
        unread=tuple(unread),
    )
