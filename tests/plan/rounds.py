# SPDX-License-Identifier: Apache-2.0
"""A resource over several reconciles: what each pod is told when pods come, change and go."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import Role, pod_of
from tandem_operator.api.names import PEERS_ANNOTATION, REVISION_LABEL, ROLE_LABEL
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, a_ready_pod, a_resource, carried_out, observed
from tests.builders.nodes import NodeBuilder
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.builders.surroundings import NOW
from tests.plan.made import template

P, D = Role.PREFILL, Role.DECODE
CURRENT = template(a_resource())["metadata"]["labels"][REVISION_LABEL]


def current(role: Role, ordinal: int = 0) -> PodBuilder:
    """A ready pod of the revision that the smallest resource wants."""
    return a_ready_pod(role, ordinal).of_revision(CURRENT)


def uid(pod: PodBuilder) -> str:
    return str(pod.build()["metadata"]["uid"])


def name(pod: PodBuilder) -> str:
    return str(pod.build()["metadata"]["name"])


@dataclass(frozen=True)
class Round:
    """What there is after a plan was carried out."""

    resource: ResourceBuilder
    pods: Mapping[str, PodBuilder]
    nodes: tuple[NodeBuilder, ...] = ()
    patched: frozenset[str] = frozenset()
    """Pods that the last plan changed, by name."""
    strangers: frozenset[str] = frozenset()
    at: datetime = NOW

    @classmethod
    def of(
        cls, *pods: PodBuilder, resource: ResourceBuilder | None = None, nodes: tuple[NodeBuilder, ...] = ()
    ) -> Self:
        return cls(resource or a_resource(), {name(pod): pod for pod in pods}, nodes).settled()

    def settled(self) -> Self:
        seen = observed(self.resource, self.pods.values(), self.nodes, strangers=self.strangers, at=self.at)
        planned = plan(seen, DEFAULTS)
        pods = {pod["metadata"]["name"]: PodBuilder(dict(pod)) for pod in carried_out(seen, planned).pods}
        return replace(self, pods=pods, patched=frozenset(patch.name for patch in planned.pod_patches))

    def then(self, *pods: PodBuilder, without: tuple[PodBuilder, ...] = (), **changes: Any) -> Self:
        """Pods that are new, or as they are now, with the annotations that they have; those that are no more."""
        left = {each: pod for each, pod in self.pods.items() if each not in {name(pod) for pod in without}}
        fresh = {name(pod): self._annotated(pod) for pod in pods}
        return replace(self, pods={**left, **fresh}, **changes).settled()

    def table(self, pod: PodBuilder) -> PeerTable:
        annotations = self.pods[name(pod)].build()["metadata"]["annotations"]
        return PeerTable.model_validate_json(annotations[PEERS_ANNOTATION])

    def peers(self, pod: PodBuilder) -> set[str]:
        """Names of the pods of the other role that this one knows."""
        return self._known(pod) - self.kin(pod)

    def kin(self, pod: PodBuilder) -> set[str]:
        """Names of the pods of its own role that this one knows."""
        own = pod.build()["metadata"]["labels"][ROLE_LABEL]
        return {peer.pod for peer in self.table(pod).peers if peer.role == own}

    def heir(self, pod: PodBuilder) -> str | None:
        """Name of the pod that is to have what this one holds.

        Raises:
            AssertionError: this one drains, to somebody else.
        """
        table = self.table(pod)
        assert table.drain is None or table.drain.successor == table.heir
        by_uid = {uid(each): each for each in self.pods.values()}
        return name(by_uid[pod_of(table.heir)]) if table.heir else None

    def _known(self, pod: PodBuilder) -> set[str]:
        return {peer.pod for peer in self.table(pod).peers}

    def _annotated(self, pod: PodBuilder) -> PodBuilder:
        before = self.pods.get(name(pod))
        if before is None or uid(before) != uid(pod):
            return pod
        annotations = before.build()["metadata"].get("annotations", {})
        return pod.patched(pod.build()["metadata"]["labels"], annotations)
