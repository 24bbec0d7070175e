# SPDX-License-Identifier: Apache-2.0
"""Why engines are not ready, each for itself."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tandem_operator.api.names import ROLE_LABEL
from tandem_operator.kubectl.views.cause import Cause, event_causes
from tandem_operator.kubectl.views.remedies import next_command
from tandem_operator.kubectl.views.seen import Seen
from tandem_operator.plan.offers import shortages, wanted_labels
from tandem_operator.plan.pods import EnginePod, is_ready
from tandem_operator.plan.revision import ENGINE_CONTAINER
from tandem_operator.plan.troubles import pod_trouble, unscheduled
from tandem_operator.plan.types import Manifest

_KUBELETS_USUAL = frozenset({"ContainerCreating", "PodInitializing"})


def missing_engines(seen: Seen) -> Iterator[Cause]:
    """Of sets that have fewer pods than they were told to have."""
    namespace = seen.observed.resource.metadata.namespace
    there = Counter(_controller(pod) for pod in seen.observed.pods)
    for manifest in seen.observed.sets:
        metadata, wanted = manifest["metadata"], manifest["spec"].get("replicas", 1)
        lacking = wanted - there[metadata["uid"]]
        if lacking > 0:
            role = (metadata.get("labels") or {}).get(ROLE_LABEL, "engine")
            yield Cause(
                subject=f"statefulset {metadata['name']}",
                reason="PodsMissing",
                message=f"{lacking} of {wanted} {role} pods aren't there",
                because=event_causes(seen.warnings_of("StatefulSet", metadata["name"])),
                next=f"kubectl --namespace {namespace} describe statefulset {metadata['name']}",
            )


def engine_causes(seen: Seen) -> Iterator[Cause]:
    """Of the engine pods that aren't ready, those that fail first."""
    waiting = [pod for pod in seen.pods if not pod.ready or pod.terminating]
    yield from sorted(
        (_cause(seen, pod) for pod in waiting), key=lambda cause: cause.reason in {"Starting", "Draining"}
    )


def _cause(seen: Seen, pod: EnginePod) -> Cause:
    namespace = seen.observed.resource.metadata.namespace
    reason, message = _words(seen, pod)
    events = event_causes(seen.warnings_of("Pod", pod.name))
    shortage = tuple(_shortages(seen, pod)) if pod.node is None else ()
    return Cause(
        subject=f"pod {pod.name}",
        reason=reason,
        message=message,
        # The scheduler's events repeat what its condition says.
        because=shortage or tuple(each for each in events if each.reason != "FailedScheduling"),
        next=_next(pod, namespace, reason),
    )


def _words(seen: Seen, pod: EnginePod) -> tuple[str, str]:
    if pod.terminating:
        return "Draining", "it ends, and hands over what it holds before"
    if (trouble := pod_trouble(pod)) is not None:
        return trouble.reason, trouble.message.removeprefix(f"pod {pod.name}: ").removeprefix(f"pod {pod.name}, ")
    node = seen.observed.nodes.get(pod.node or "")
    if node is not None and not is_ready(node):
        return "NodeNotReady", f"its node {pod.node} isn't ready"
    if pod.node is None:
        return "Starting", "the scheduler hasn't looked at it yet"
    return "Starting", _stage(pod.manifest)


def _stage(pod: Manifest) -> str:
    """Where a pod without trouble has got to."""
    status = pod.get("status", {})
    for container in status.get("initContainerStatuses") or ():
        if "terminated" not in (container.get("state") or {}):
            return f"its init container {container['name']} {_doing(container)}"
    for container in status.get("containerStatuses") or ():
        if container["name"] == ENGINE_CONTAINER:
            return f"its engine {_doing(container)}"
    return "its kubelet hasn't begun with it"


def _doing(container: Mapping[str, Any]) -> str:
    state = container.get("state") or {}
    if running := state.get("running"):
        return f"runs since {running.get('startedAt', 'some time')} and doesn't answer yet: it loads the model, or fetches it"
    waiting = (state.get("waiting") or {}).get("reason", "unknown")
    return "waits for its image and volumes" if waiting in _KUBELETS_USUAL else f"waits: {waiting}"


def _shortages(seen: Seen, pod: EnginePod) -> Iterator[Cause]:
    """What no node has of what the pod asks for."""
    metadata = seen.observed.resource.metadata
    labels = wanted_labels(pod.manifest)
    if labels is None or not seen.observed.nodes:
        return
    wanted = dict(each.split("=", 1) for each in labels.split(","))
    nodes = [node for node in seen.observed.nodes.values() if wanted.items() <= _labels(node).items()]
    if not nodes:
        yield Cause(
            subject="nodes",
            reason="NoSuchNode",
            message=f"no node has {labels}: add such nodes, or change spec.accelerator.instanceType or spec.placement",
            next=f"kubectl get nodes --selector {labels}",
        )
    for trouble in shortages([pod.manifest], {labels: nodes}):
        next_ = next_command(trouble.reason, metadata.namespace, metadata.name)
        yield Cause(subject="nodes", reason=trouble.reason, message=trouble.message, next=next_)


def _next(pod: EnginePod, namespace: str, reason: str) -> str:
    describe = f"kubectl --namespace {namespace} describe pod {pod.name}"
    if pod.terminating or reason == "NodeNotReady" or unscheduled(pod.manifest):
        return describe if reason != "NodeNotReady" else f"kubectl describe node {pod.node}"
    statuses: Sequence[Mapping[str, Any]] = pod.manifest.get("status", {}).get("containerStatuses") or ()
    engine = next((each for each in statuses if each["name"] == ENGINE_CONTAINER), {})
    logs = f"kubectl --namespace {namespace} logs {pod.name} --container {ENGINE_CONTAINER}"
    if (engine.get("lastState") or {}).get("terminated"):
        return f"{logs} --previous"
    return f"{logs} --follow" if "running" in (engine.get("state") or {}) else describe


def _labels(node: Manifest) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _controller(pod: Manifest) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")
