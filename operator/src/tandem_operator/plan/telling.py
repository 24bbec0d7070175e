# SPDX-License-Identifier: Apache-2.0
"""When an engine pod was told something new, and whether its kubelet is to be told of it once more.

A kubelet that is filling a pod's volume while the pod changes takes the volume for filled when it has ended, with what the pod
said before. It looks at the pod again with the pod's next change, else a minute or more later (where in its source, says
docs/design/003-peer-tables-in-annotations.md). So the second of two tables that come soon after each other is followed by one more
write of the pod, which says nothing new.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from tandem_operator.api.names import TELL_AGAIN_ANNOTATION, TOLD_ANNOTATION
from tandem_operator.plan.pods import EnginePod

SOON: Final = timedelta(seconds=5)
"""A kubelet shows a change within a quarter of a second. One whose machine was overloaded lost a change that came a second after
another: this leaves it twenty times the usual, to fill the volume before the second change and before the repetition."""
_NEVER_EARLIER: Final = timedelta(seconds=1)
"""Than that another look is asked for: a pod that could not be written must not keep the operator busy."""


def telling_annotations(pod: EnginePod, *, is_new: bool, at: datetime) -> dict[str, str]:
    """When `pod` was told its table, and until when it awaits a repetition, as annotations.

    Args:
        pod: with its present ones.
        is_new: it is told another table now.
        at: now, with a time zone.
    """
    told, again = pod.annotations.get(TOLD_ANNOTATION), pod.annotations.get(TELL_AGAIN_ANNOTATION)
    if is_new:
        before, now = _time(told), at.replace(microsecond=0)
        told = now.isoformat()
        again = (now + SOON).isoformat() if before and at - before < SOON and _reads_changes(pod) else None
    elif again is not None and not _is_ahead(again, at):
        again = None
    written = {TOLD_ANNOTATION: told, TELL_AGAIN_ANNOTATION: again}
    return {name: time for name, time in written.items() if time is not None}


def next_repetition(pods: Iterable[EnginePod], now: datetime) -> timedelta | None:
    """How long until one of these pods is to be told again; None when none awaits it. Pods that are over are told nothing more."""
    marks = (pod.annotations.get(TELL_AGAIN_ANNOTATION) for pod in pods if not pod.is_over)
    due = (time for mark in marks if (time := _time(mark)))
    return max((earliest - now, _NEVER_EARLIER)) if (earliest := min(due, default=None)) else None


def _reads_changes(pod: EnginePod) -> bool:
    """Whether there is a process that learns of changes by the file.

    A kubelet looks at a pod in any case when its container has started, and shows one that is being deleted nothing new.
    """
    return pod.exchanges and pod.peer is not None and not pod.terminating


def _is_ahead(text: str, at: datetime) -> bool:
    """Whether it is a time that is still to come. One that is further ahead than ours can be is of a clock that goes wrong."""
    time = _time(text)
    return time is not None and timedelta() < time - at <= SOON


def _time(text: str | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo else None
