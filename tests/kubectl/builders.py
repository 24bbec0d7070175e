# SPDX-License-Identifier: Apache-2.0
"""What the kubectl plugin reads of one resource."""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import KIND, RESOURCE_LABEL, ROLE_LABEL
from tandem_operator.api.status import Condition, ConditionStatus, ConditionType, Status
from tandem_operator.kube.kinds import POD, RESOURCE, STATEFUL_SET
from tandem_operator.kubectl.views.seen import Seen
from tests.builders import NOW, a_ready_pod, a_resource, a_set, observed, settled
from tests.builders.nodes import NodeBuilder
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.kube.fake_api import FakeApi


def a_condition(kind: ConditionType, status: ConditionStatus, reason: str, message: str = "words") -> Condition:
    return Condition(
        type=kind,
        status=status,
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason=reason,
        message=message,
    )


def with_conditions(*conditions: Condition, generation: int = 1, **status: Any) -> ResourceBuilder:
    return a_resource().with_status(Status(observed_generation=generation, conditions=conditions, **status))


NOT_READY = a_condition(ConditionType.READY, ConditionStatus.FALSE, "EnginesStarting", "1 of 2 engines are ready")
READY = a_condition(ConditionType.READY, ConditionStatus.TRUE, "EnginesReady", "all take requests")


def an_event(kind: str, name: str, reason: str, note: str, *, at: str = "2026-01-01T11:00:00Z") -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": at},
        "type": "Warning",
        "reason": reason,
        "note": note,
        "regarding": {"kind": kind, "name": name},
    }


def seen(
    resource: ResourceBuilder | None = None,
    pods: Iterable[PodBuilder] = (),
    nodes: Iterable[NodeBuilder] = (),
    events: Iterable[dict[str, Any]] = (),
    **more: Any,
) -> Seen:
    """Sets want no pods but those that there are, until told otherwise."""
    given = tuple(pods)
    found = observed(resource, given, nodes, **more)
    if "sets" not in more:
        for manifest in found.sets:
            manifest["spec"]["replicas"] = 0
    return Seen(found, tuple(events))


def two_of_each() -> Seen:
    """Two engines of each role, which have been told of each other."""
    pods = [a_ready_pod(role, ordinal).on_node("node-a") for role in Role for ordinal in (0, 1)]
    told = settled(observed(a_resource().with_prefill(2).with_decode(2), pods))
    return Seen(told)


def put_engine(api: FakeApi, pod: PodBuilder, role: Role = Role.DECODE) -> None:
    """A pod of a resource that is stored already, with the StatefulSet in between."""
    resource = api.get(RESOURCE.plural, "qwen")
    assert resource is not None
    set_ = a_set(role)
    owner = {"kind": KIND, "name": "qwen", "uid": resource["metadata"]["uid"], "controller": True}
    labels = {RESOURCE_LABEL: "qwen", ROLE_LABEL: str(role)}
    set_["metadata"] |= {"namespace": "models", "labels": labels, "ownerReferences": [owner]}
    stored = api.put(STATEFUL_SET.plural, set_)
    manifest = pod.build()
    controller = {"kind": "StatefulSet", "name": set_["metadata"]["name"], "controller": True}
    manifest["metadata"]["ownerReferences"] = [{**controller, "uid": stored["metadata"]["uid"]}]
    api.put(POD.plural, manifest)


def metrics_text(
    *,
    tokens: Mapping[str, float] | None = None,
    received: Mapping[str, float] | None = None,
    written: Mapping[str, float] | None = None,
    received_from: Mapping[tuple[str, str], float] | None = None,
    written_to: Mapping[tuple[str, str], float] | None = None,
    waits: tuple[int, float] = (0, 0.0),
    wants_open: int = 0,
    rank: int = 0,
) -> str:
    """What one data-parallel rank of an engine shows at `/metrics`, and something that nobody asked for.

    `received_from` and `written_to` are by peer and purpose; `waits`: how many, and their seconds.
    """
    own = f'model_name="m",engine="{rank}"'
    counters = {
        "tandem_prompt_tokens_total": ("source", tokens),
        "tandem_bytes_received_total": ("purpose", received),
        "tandem_bytes_written_total": ("purpose", written),
    }
    lines = [
        "# HELP tandem_wants_open Own wants that somebody waits for.",
        "# TYPE tandem_wants_open gauge",
        f"tandem_wants_open{{{own}}} {wants_open}",
        f"tandem_wait_seconds_count{{{own}}} {waits[0]}",
        f"tandem_wait_seconds_sum{{{own}}} {waits[1]}",
        f'tandem_wait_seconds_bucket{{{own},le="+Inf"}} {waits[0]}',
        f"vllm:num_requests_running{{{own}}} 2",
        "python_gc_objects_collected_total 1234",
    ]
    for name, (label, values) in counters.items():
        lines += [f'{name}{{{own},{label}="{value}"}} {amount:e}' for value, amount in (values or {}).items()]
        # Prometheus' client tells of each counter also when it was made.
        lines += [f'{name.removesuffix("_total")}_created{{{own},{label}="{value}"}} 1.7e9' for value in values or {}]
    for name, pairs in (
        ("tandem_peer_bytes_received_total", received_from),
        ("tandem_peer_bytes_written_total", written_to),
    ):
        lines += [
            f'{name}{{{own},peer="{peer}",purpose="{purpose}"}} {amount:e}'
            for (peer, purpose), amount in (pairs or {}).items()
        ]
    return "\n".join(lines) + "\n"


__all__ = [
    "NOT_READY",
    "NOW",
    "READY",
    "a_condition",
    "an_event",
    "metrics_text",
    "put_engine",
    "seen",
    "two_of_each",
    "with_conditions",
]
