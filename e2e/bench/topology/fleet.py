# SPDX-License-Identifier: Apache-2.0
"""The resources that are brought up, and pods that are the same to Kubernetes for another controller to bring up."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from e2e.cluster.local.simulated import ZONES
from tandem_connector.contract.types import Role
from tandem_operator.api.names import API_VERSION, KIND, role_name
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults, Observed

NAMESPACE = "fleet"
SPREAD = 8
"""Resources have up to so many engines more or less than the average, but for one."""
NODE_GPUS = 8
NODES_IN_STEP = 8 * len(ZONES)
"""With so many more nodes, each zone has as many more."""


@dataclass(frozen=True)
class Member:
    """One resource."""

    manifest: dict[str, Any]
    prefill: int
    decode: int

    @property
    def name(self) -> str:
        """The resource's."""
        return str(self.manifest["metadata"]["name"])

    @property
    def engines(self) -> int:
        """How many it has."""
        return self.prefill + self.decode

    def template(self, role: Role) -> dict[str, Any]:
        """The pod template that the operator makes for a role, under labels of another domain."""
        metadata = {**self.manifest["metadata"], "uid": "00000000-0000-4000-8000-000000000000"}
        resource = DisaggregatedInference.model_validate({**self.manifest, "metadata": metadata})
        planned = plan(Observed(resource, at=datetime.now(UTC)), Defaults("front-door", "connector"))
        wanted = role_name(self.name, role)
        found = next(
            each for each in planned.objects if (each["kind"], each["metadata"]["name"]) == ("StatefulSet", wanted)
        )
        template: dict[str, Any] = json.loads(
            json.dumps(found["spec"]["template"]).replace("tandem.dev/", "other.dev/")
        )
        return template


def fleet(resources: int, engines: int) -> list[Member]:
    """So many resources with so many engines in all, of which two thirds decode; each in a zone of its own choice, in turn."""
    return [_member(number, size) for number, size in enumerate(_sizes(resources, engines))]


def nodes_for(members: list[Member]) -> int:
    """How many nodes of 8 GPUs have room in each zone for its members, each engine on a GPU."""
    most = max(sum(each.engines for each in members[zone :: len(ZONES)]) for zone in range(len(ZONES)))
    return -(-most // (NODE_GPUS * 8)) * NODES_IN_STEP


def _sizes(resources: int, engines: int) -> Iterator[int]:
    """A small one and a large one in turn, which are together as two of the usual size."""
    usual = engines // resources
    for number in range(resources):
        off = min(usual - 2, number // 2 % SPREAD)
        paired = number < resources - resources % 2
        size = usual + ((off if number % 2 else -off) if paired else 0)
        yield size + (number < engines % resources)


def _member(number: int, size: int) -> Member:
    prefill = max(1, size // 3)
    on_gpu_nodes = {
        "spec": {
            "nodeSelector": {"node.kubernetes.io/instance-type": "p5en.48xlarge"},
            "tolerations": [{"operator": "Exists"}],
        }
    }
    manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": f"model-{number:03}", "namespace": NAMESPACE},
        "spec": {
            "model": {"name": "Qwen/Qwen3-32B"},
            "engine": {"image": "vllm/vllm-openai:v0.32.0"},
            "accelerator": {"instanceType": "p5en.48xlarge", "hugepages2mi": "5120Mi"},
            "placement": {"nodeSelector": {"topology.kubernetes.io/zone": ZONES[number % len(ZONES)]}},
            "prefill": {"replicas": prefill},
            "decode": {"replicas": size - prefill},
            "frontDoor": {"podTemplate": on_gpu_nodes},
            # Nobody answers in simulated pods.
            "verification": {"enabled": False},
        },
    }
    return Member(manifest, prefill, size - prefill)
