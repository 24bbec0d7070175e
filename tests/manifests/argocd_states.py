# SPDX-License-Identifier: Apache-2.0
"""Resources as the operator itself describes them in their statuses, and what Argo CD shows of each."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import API_VERSION, KIND, SCALER_KIND
from tandem_operator.api.status import ConditionType, Reason
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.types import Observed
from tests.builders import NOW, a_pod, a_resource, observed
from tests.manifests.checking import Manifest
from tests.plan.test_outcome import ALL_WELL, after, refusal, serving, waiting

P, D = Role.PREFILL, Role.DECODE
UNSCHEDULED = a_pod(D).with_condition("PodScheduled", "False", "0/3 nodes are available")
SEEN: list[tuple[Observed, str, str]] = [
    (ALL_WELL, "Healthy", "EnginesReady: 1 prefill and 1 decode engines take requests"),
    (observed(sets={}, front_door=None), "Progressing", "RollingOut: "),
    (observed(pods=[serving(D)]), "Progressing", "EnginesStarting: prefill: 0 of 1 engines ready"),
    (observed(pods=[serving(P), serving(D), serving(D, 1)]), "Progressing", "ScalingDown: "),
    (observed(pods=[serving(P), UNSCHEDULED]), "Progressing", "Unschedulable: pod qwen-decode-0: 0/3 nodes"),
    (observed(pods=[serving(P), waiting(D, "ErrImagePull")]), "Degraded", "PodFailing: pod qwen-decode-0"),
    (replace(ALL_WELL, refusals=(refusal(immutable=True),)), "Degraded", "ImmutableField: "),
    (observed(a_resource().with_prefill(0).with_decode(0)), "Suspended", "ScaledToZero: no decode engines"),
]
"""What the operator sees, the status that is shown of it, and how the message begins."""


def seen_as(seen: Observed, problem: InvalidSpec | None = None) -> Manifest:
    """The resource after the operator has looked at it."""
    status = after(seen, problem=problem, now=NOW).status.model_dump(by_alias=True, mode="json")
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "qwen", "generation": seen.resource.metadata.generation},
        "status": status,
    }


def with_condition(manifest: Manifest, kind: ConditionType, status: str, reason: Reason) -> Manifest:
    changed = [
        {**each, "status": status, "reason": str(reason), "message": "words"} if each["type"] == kind else each
        for each in manifest["status"]["conditions"]
    ]
    return {**manifest, "status": {**manifest["status"], "conditions": changed}}


def scaler(**status: Any) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": SCALER_KIND,
        "metadata": {"name": "qwen-decode", "generation": 2},
        "status": {"observedGeneration": 2, **status},
    }


def limited(**status: Any) -> Manifest:
    why = {"type": "ScalingLimited", "status": "True", "reason": "GpuBudget", "message": "no GPUs"}
    return scaler(**status, conditions=[why])


def recorded() -> Iterator[Manifest]:
    """All that is described here, and what the operator has not seen."""
    yield from (seen_as(seen) for seen, _, _ in SEEN)
    yield seen_as(ALL_WELL, problem=InvalidSpec("spec.decode", "is wrong"))
    yield {**seen_as(ALL_WELL), "status": None}
    for status in ("True", "False", "Unknown"):
        for kind, reason in (
            (ConditionType.FABRIC_ACTIVE, Reason.TCP_FALLBACK),
            (ConditionType.KV_TRANSFER_VERIFIED, Reason.NOTHING_MOVED),
            (ConditionType.PROGRESSING, Reason.ROLLOUT_PAUSED),
        ):
            yield with_condition(seen_as(ALL_WELL), kind, status, reason)
    for ready in (0, 1, 2):
        yield scaler(replicas=2, readyReplicas=ready)
        yield limited(replicas=2, readyReplicas=ready)
    yield scaler()
    yield {**scaler(), "status": None}


def drawn(number: int) -> Iterator[Manifest]:
    """Any conditions at all, the same ones each time."""
    chance = Random(0)
    for _ in range(number):
        kinds = chance.sample(list(ConditionType), chance.randint(0, len(ConditionType)))
        conditions = [
            {
                "type": str(kind),
                "status": chance.choice(["True", "False", "Unknown"]),
                "reason": str(chance.choice(list(Reason))),
                "message": "words",
            }
            for kind in kinds
        ]
        status = {"observedGeneration": chance.choice([2, 3, 3, 3]), "conditions": conditions}
        yield {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "qwen", "generation": 3}, "status": status}
