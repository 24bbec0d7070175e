# SPDX-License-Identifier: Apache-2.0
"""What keeps the spec from being reached, in the words of those who found it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem_connector.contract.environment import NO_NIXL
from tandem_operator.api.status import Reason
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.types import Manifest, Refusal, WantedKey

_HOPELESS: Final = frozenset(
    {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"}
    | {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"}
)
"""Reasons of the kubelet for a container that waits, which waiting alone doesn't cure."""
_MANY_RESTARTS: Final = 3
"""From here on a container that runs and isn't ready counts as failing: between two crashes it runs for a while."""


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong."""

    reason: Reason
    message: str


def refusal_trouble(refusal: Refusal) -> Trouble:
    """What the API server refused to apply, and how to go on."""
    what = f"{refusal.key.kind} {refusal.key.name}"
    if not refusal.immutable:
        return Trouble(Reason.APPLY_FAILED, f"{what} was refused: {refusal.message}")
    orphan = " --cascade=orphan" if refusal.key.kind == "StatefulSet" else ""
    remedy = f"kubectl delete {refusal.key.kind.lower()} {refusal.key.name}{orphan}"
    return Trouble(
        Reason.IMMUTABLE_FIELD,
        f"{what} has a field that cannot be changed in place; delete it with `{remedy}` and it is made anew:"
        f" {refusal.message}",
    )


def key_trouble(wanted: WantedKey) -> Trouble:
    """The user's Secret that isn't there."""
    name = wanted.secret["metadata"]["name"]
    return Trouble(
        Reason.KEY_MISSING,
        f"Secret {name}, which spec.transfer.auth.secretRef names, does not exist, and engines wait for it: create it with a key"
        f" file under {wanted.entry}, or remove spec.transfer.auth to have a key made",
    )


def pod_trouble(pod: EnginePod) -> Trouble | None:
    """What keeps a pod from becoming ready, if anything but time does."""
    if pod.terminating or pod.ready:
        return None
    status = pod.manifest.get("status", {})
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        complaint = _complaint(container)
        if complaint and NO_NIXL in complaint:
            return Trouble(Reason.NIXL_MISSING, f"spec.engine.image: {NO_NIXL}")
        if complaint:
            return Trouble(Reason.POD_FAILING, f"pod {pod.name}, container {container['name']}: {complaint}")
    words = unscheduled(pod.manifest)
    return Trouble(Reason.UNSCHEDULABLE, f"pod {pod.name}: {words}") if words else None


def unscheduled(pod: Manifest) -> str | None:
    """The scheduler's words on a pod for which it found no node; None for others."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            return str(condition.get("message") or condition.get("reason", "not scheduled"))
    return None


def _complaint(container: Mapping[str, Any]) -> str | None:
    state, last = container.get("state") or {}, (container.get("lastState") or {}).get("terminated")
    waiting = state.get("waiting") or {}
    if waiting.get("reason") in _HOPELESS:
        words = [waiting["reason"], waiting.get("message"), _end(last)]
        return ": ".join(word for word in words if word)
    if container.get("restartCount", 0) >= _MANY_RESTARTS and not container.get("ready") and last:
        return f"restarted {container['restartCount']} times: {_end(last)}"
    return None


def _end(terminated: Mapping[str, Any] | None) -> str:
    if not terminated:
        return ""
    words = f"last exit code {terminated.get('exitCode')} ({terminated.get('reason', 'unknown')})"
    message = (terminated.get("message") or "").strip()
    return f"{words}: {message}" if message else words


def front_door_trouble(deployment: Manifest | None) -> Trouble | None:
    """What a Deployment says about itself when it doesn't get on."""
    for condition in (deployment or {}).get("status", {}).get("conditions") or ():
        match condition["type"], condition["status"]:
            case ("ReplicaFailure", "True") | ("Progressing", "False"):
                return Trouble(Reason.FRONT_DOOR_FAILING, f"front door: {condition.get('message', condition['type'])}")
    return None


def worst_first(troubles: Iterator[Trouble]) -> list[Trouble]:
    """Refusals before pods that fail before pods without a node; what comes first is what others follow from."""
    order = [
        Reason.INVALID,
        Reason.IMMUTABLE_FIELD,
        Reason.APPLY_FAILED,
        Reason.KEY_MISSING,
        Reason.ROLLED_BACK,
        Reason.NIXL_MISSING,
        Reason.ENGINE_VERSIONS_DIFFER,
        Reason.ZONES_DIFFER,
        Reason.POD_FAILING,
        Reason.QUARANTINED,
        Reason.FRONT_DOOR_FAILING,
        Reason.DEVICE_PLUGIN_MISSING,
        Reason.DEVICES_NOT_OFFERED,
        Reason.HUGE_PAGES_NOT_OFFERED,
        Reason.UNSCHEDULABLE,
        Reason.PROGRESS_DEADLINE,
    ]
    return sorted(dict.fromkeys(troubles), key=lambda trouble: (order.index(trouble.reason), trouble.message))
