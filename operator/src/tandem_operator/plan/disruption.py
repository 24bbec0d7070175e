# SPDX-License-Identifier: Apache-2.0
"""PodDisruptionBudgets: what drains of nodes and other evictions may take at one time.

One engine of a role, or one pod of the front door, at a time: an engine that is evicted drains like any that is deleted, and the next
one goes when its replacement is ready. No budget holds up a drain for ever: one that isn't ready may always go
(`unhealthyPodEvictionPolicy`), and one that hasn't been for half an hour is no longer waited for.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tandem_connector.contract.types import Role
from tandem_operator.api.names import FRONT_DOOR_ROLE, front_door_name, role_name
from tandem_operator.plan.children import (
    ENGINE_APPLICATION,
    FRONT_DOOR_APPLICATION,
    labels,
    metadata,
    selector,
)
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.types import Manifest

WAITED_FOR: Final = timedelta(minutes=30)
"""How long a replacement may take. An image of 20 GB and 700 GB of weights from local NVMe take about a quarter of an hour."""


def disruption_budgets(pods: Sequence[EnginePod], resolved: Resolved, now: datetime) -> Iterator[Manifest]:
    """One for each role, and one for the front door where it has several pods: a budget would pin a single one, or say nothing.

    Args:
        pods: the resource's engine pods.
        resolved: what is wanted.
        now: with a time zone.
    """
    for role in Role:
        lost = [pod for pod in pods if pod.role is role and _is_given_up(pod, now)]
        yield _budget(
            metadata(resolved, role_name(resolved.name, role), labels(resolved.name, role, ENGINE_APPLICATION)),
            selector(resolved.name, role),
            1 + len(lost),
        )
    if resolved.front_door.enabled and resolved.front_door.replicas > 1:
        of = labels(resolved.name, FRONT_DOOR_ROLE, FRONT_DOOR_APPLICATION)
        yield _budget(
            metadata(resolved, front_door_name(resolved.name), of), selector(resolved.name, FRONT_DOOR_ROLE), 1
        )


def _budget(of: Mapping[str, Any], pods: Mapping[str, str], at_one_time: int) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": of,
        "spec": {
            "maxUnavailable": at_one_time,
            "selector": {"matchLabels": dict(pods)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _is_given_up(pod: EnginePod, at: datetime) -> bool:
    """Kubernetes counts a pod that is being deleted as gone already, whatever its condition."""
    since = _unready_since(pod.manifest)
    return since is not None and not pod.terminating and at - since >= WAITED_FOR


def _unready_since(manifest: Manifest) -> datetime | None:
    conditions: Sequence[Mapping[str, Any]] = manifest.get("status", {}).get("conditions") or ()
    ready = next((each for each in conditions if each["type"] == "Ready"), None)
    if ready is not None and ready["status"] == "True":
        return None
    # A pod that no node has been found for has no such condition.
    since = (ready or {}).get("lastTransitionTime") or manifest["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(since) if since else None
