# SPDX-License-Identifier: Apache-2.0
"""What there is in the namespace at one time, and what of it isn't as it should be."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from e2e.installation import is_ready
from e2e.kubectl import Kubectl, Manifest
from tandem_connector.contract.peers import Peer, PeerTable
from tandem_connector.contract.types import Role, pod_of
from tandem_operator.api.names import ENGINE_LABEL, KIND, PEERS_ANNOTATION, RESOURCE_LABEL, ROLE_LABEL, SCALER_KIND
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.kube.kinds import CHILD_KINDS
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults, Observed

_KINDS = ",".join(["nodes", "pods", "disaggregatedinferences", *(kind.plural for kind in CHILD_KINDS)])


@dataclass(frozen=True)
class Snapshot:
    """All objects of the resources."""

    resources: Mapping[str, Manifest]
    """By name."""
    engines: Mapping[str, Sequence[Manifest]]
    """Their pods, by the resource's name."""
    children: Mapping[str, Sequence[Manifest]]
    """All else that carries a resource's label, by its name."""
    nodes: Mapping[str, Manifest]
    """By name."""

    @classmethod
    def of(cls, objects: Iterable[Manifest]) -> Self:
        """Sort these."""
        resources: dict[str, Manifest] = {}
        nodes: dict[str, Manifest] = {}
        engines: dict[str, list[Manifest]] = defaultdict(list)
        children: dict[str, list[Manifest]] = defaultdict(list)
        for each in objects:
            metadata = each["metadata"]
            labels = metadata.get("labels") or {}
            match each["kind"]:
                case kind if kind == KIND:
                    resources[metadata["name"]] = each
                case "Node":
                    nodes[metadata["name"]] = each
                case "Pod":
                    if ENGINE_LABEL in labels:
                        engines[labels[ENGINE_LABEL]].append(each)
                case _ if RESOURCE_LABEL in labels:
                    children[labels[RESOURCE_LABEL]].append(each)
        return cls(resources, engines, children, nodes)

    @classmethod
    def take(cls, kubectl: Kubectl) -> Self:
        """Of the namespace, as it is now.

        Raises:
            KubectlError: the API server doesn't answer.
        """
        return cls.of(json.loads(kubectl.run("get", _KINDS, "-o", "json", timeout=20.0))["items"])

    @property
    def pods(self) -> dict[str, Manifest]:
        """The engines' pods, by UID."""
        return {pod["metadata"]["uid"]: pod for pods in self.engines.values() for pod in pods}

    def restarts(self) -> dict[str, int]:
        """By the UID of the engine's pod, how often its containers were started anew."""
        return {
            uid: sum(each["restartCount"] for each in pod.get("status", {}).get("containerStatuses") or ())
            for uid, pod in self.pods.items()
        }

    def ghosts(self) -> list[str]:
        """Each peer in a table that is no pod which exists, in words."""
        there = self.pods
        return [
            f"{pod['metadata']['name']} is told of {peer.pod} ({peer.engine}), which is gone"
            for pod in there.values()
            for peer in _peers(pod)
            if pod_of(peer.engine) not in there
        ]

    def unsettled(self) -> Iterator[str]:
        """What of each resource isn't as the operator's plan has it, in words."""
        for name, resource in self.resources.items():
            if not is_ready(resource):
                yield f"{name} is not ready"
            elif resource["status"].get("observedGeneration") != resource["metadata"]["generation"]:
                yield f"the status of {name} is of a former generation"
            elif wrong := [patch.name for patch in plan(self._observed(resource), _DEFAULTS).pod_patches]:
                yield f"the plan would write other tables or labels on {', '.join(wrong)}"
            yield from (
                f"{pod['metadata']['name']} is being deleted"
                for pod in self.engines.get(name, ())
                if pod["metadata"].get("deletionTimestamp")
            )
        for name in (self.engines.keys() | self.children.keys()) - self.resources.keys():
            yield f"{name} is gone, and something of it is left"

    def _observed(self, resource: Manifest) -> Observed:
        name = resource["metadata"]["name"]
        own = self.children.get(name, ())
        scalers = {each["metadata"]["labels"].get(ROLE_LABEL): each for each in own if each["kind"] == SCALER_KIND}
        return Observed(
            at=datetime.now(UTC),
            resource=DisaggregatedInference.model_validate(dict(resource)),
            sets=tuple(each for each in own if each["kind"] == "StatefulSet"),
            # A StatefulSet's own carry its pods' labels.
            revisions=tuple(
                each
                for each in own
                if each["kind"] == "ControllerRevision" and each["metadata"]["ownerReferences"][0]["kind"] == KIND
            ),
            scalers={role: scalers[role] for role in Role if role in scalers},
            pods=tuple(self.engines.get(name, ())),
            nodes=self.nodes,
        )


_DEFAULTS = Defaults(front_door_image="front-door", connector_image="connector")
"""Of no account for what is told to pods that run."""


def _peers(pod: Manifest) -> Sequence[Peer]:
    text = (pod["metadata"].get("annotations") or {}).get(PEERS_ANNOTATION)
    return PeerTable.model_validate_json(text).peers if text else ()
