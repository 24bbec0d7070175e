# SPDX-License-Identifier: Apache-2.0
"""Waiting for a resource to be ready, with a word on where it stands."""

import time
from typing import Final

from e2e.cluster.progress import Progress
from e2e.installation import condition, engine_pods, is_ready
from e2e.kubectl import Kubectl, Manifest

READY_WITHIN: Final = 900.0
"""Seconds for two engines to start on a slow machine."""


class NotReadyError(Exception):
    """Something did not become ready in time. The text says what it was like at the end."""


def wait_until_ready(kubectl: Kubectl, name: str, within: float = READY_WITHIN, *, what: str = "") -> Manifest:
    """The resource once the operator says Ready; shows meanwhile what is being waited for.

    Args:
        kubectl: of the resource's namespace.
        name: the resource's.
        within: seconds.
        what: how it is called while it is waited for; default: its name.

    Raises:
        NotReadyError: it was not within so many seconds.
    """
    with Progress(f"waiting for {what or name}") as progress:
        while True:
            resource = kubectl.get("pdi", name) or {}
            if resource and is_ready(resource):
                return resource
            if progress.elapsed > within:
                raise NotReadyError(f"{name} is not ready after {within:.0f} s: {_standing(kubectl, name, resource)}")
            progress.update(_standing(kubectl, name, resource))
            time.sleep(1.0)


def _standing(kubectl: Kubectl, name: str, resource: Manifest) -> str:
    states = {pod["metadata"]["name"]: _pod_state(pod) for pod in engine_pods(kubectl, name)}
    pods = ", ".join(f"{pod} {state}" for pod, state in states.items())
    if "starting" in states.values():
        return pods
    # Nothing starts: what the operator says is what matters.
    _, reason, message = condition(resource, "Ready")
    return "; ".join(part for part in (message or reason, pods) if part)


def _pod_state(pod: Manifest) -> str:
    for status in pod["status"].get("containerStatuses", []):
        if waiting := status.get("state", {}).get("waiting"):
            return str(waiting.get("reason", "waiting"))
        if status.get("ready"):
            return "ready"
        if "running" in status.get("state", {}):
            return "starting"
    return str(pod["status"].get("phase", "unknown")).lower()
