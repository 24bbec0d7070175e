# SPDX-License-Identifier: Apache-2.0
"""Whether a roll-out gets on: since when no engine of the new revision has become ready, or shown that KV moves."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from tandem_operator.api.status import ConditionStatus, ConditionType
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.proof import why_not_shown
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.sets import EngineSet
from tandem_operator.plan.troubles import pod_trouble
from tandem_operator.plan.types import Manifest, Observed


def why_missed(
    observed: Observed, resolved: Resolved, revision: str, sets: Sequence[EngineSet], pods: Sequence[EnginePod]
) -> str | None:
    """Why a revision's roll-out is to be given up; None while it isn't.

    That it was gone back to, a set that was made, a pod that was made or became ready, and one of another revision that is still
    given time to end, all count as progress. The time runs while the status says that there is progress: a pause doesn't count.
    """
    patience = resolved.pace.patience
    own = [each.manifest for each in sets if each.revision == revision]
    since = _followed_since(observed, revision)
    if not own or since is None or observed.at - max(since, *_signs(revision, own, pods)) < patience:
        return None
    made = [pod for pod in pods if pod.revision == revision]
    late = sorted((pod for pod in made if not pod.ready), key=lambda pod: pod.name)
    if made and not late and not any(pod.takes_requests for pod in made):
        why = why_not_shown(resolved, made)
        return f"KV was not seen to move between its engines in {_text(patience)}, so none took turns: {why}"
    found = [trouble.message for pod in late if (trouble := pod_trouble(pod))]
    why = found[0] if found else f"pod {late[0].name} is not ready" if late else "its pods are not made"
    return f"no engine became ready in {_text(patience)}: {why}"


def _followed_since(observed: Observed, revision: str) -> datetime | None:
    """Since when the status says that engines are brought to the revision; None: it says something else."""
    if (status := observed.resource.status) is None or revision not in (status.revision.current, status.revision.next):
        return None
    for known in status.conditions:
        if (known.type, known.status) == (ConditionType.PROGRESSING, ConditionStatus.TRUE):
            gone_back_to = _time(status.revision.since if revision == status.revision.next else None)
            return max((datetime.fromisoformat(known.last_transition_time), *gone_back_to))
    return None


def _signs(revision: str, own: Sequence[Manifest], pods: Sequence[EnginePod]) -> Iterator[datetime]:
    """Times of progress; at least one."""
    yield datetime.min.replace(tzinfo=UTC)
    for manifest in own:
        yield from _time(manifest["metadata"].get("creationTimestamp"))
    for pod in pods:
        metadata = pod.manifest["metadata"]
        if pod.revision != revision:
            yield from _time(metadata.get("deletionTimestamp"))
            continue
        yield from _time(metadata.get("creationTimestamp"))
        for condition in pod.manifest.get("status", {}).get("conditions") or ():
            if (condition["type"], condition["status"]) == ("Ready", "True"):
                yield from _time(condition.get("lastTransitionTime"))


def _time(stamp: str | None) -> Iterator[datetime]:
    if stamp:
        yield datetime.fromisoformat(stamp)


def _text(duration: timedelta) -> str:
    seconds = round(duration.total_seconds())
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
