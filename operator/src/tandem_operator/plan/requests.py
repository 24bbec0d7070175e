# SPDX-License-Identifier: Apache-2.0
"""Requests for verification now: an annotation on the resource whose value its status doesn't answer yet.

    a new value --nothing can be tried--> Refused
    a new value --> Running --each pair has answered--> Answered
                       |----its time is over----------> TimedOut

What pairs have shown for it is kept on their pods, and how far it is in the status, so the next operator goes on with it. Of
several requests the newest counts: what was held for another is worth what an unasked conversation is.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from tandem_operator.api.names import VERIFY_ANNOTATION
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.api.spec import Spec
from tandem_operator.api.status import Reason, RequestedVerification, RequestState
from tandem_operator.api.transfer import Protocol
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolve import protocol_of
from tandem_operator.plan.rounds import Tried, tried
from tandem_operator.plan.stamp import stamp
from tandem_operator.plan.types import EventType

LONGEST: Final = timedelta(minutes=5)
"""A request takes so long at most, and"""
LONGEST_EACH: Final = timedelta(seconds=15)
"""so much more for each pair: which prefill engine is asked is decode's choice, and few conversations are held at one time."""
_FORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_+-]{0,63}")
_SHOWN: Final = 40
_NO_PAIR: Final = (
    "no pair of engines that are as the spec says is ready and told of each other: wait until some are, and ask again"
)


def open_request(resource: DisaggregatedInference) -> str:
    """The request that conversations are, or are to be, held for; empty: none."""
    value, last = _asked(resource), resource.status.verification if resource.status else None
    if not _is_name(value) or (last and last.request == value and last.state is not RequestState.RUNNING):
        return ""
    return value


def why_never(spec: Spec) -> str | None:
    """Why a resource's engines are never conversed with, by the field and with the remedy; None: they are."""
    if protocol_of(spec) is Protocol.NIXL_PULL:
        return (
            "spec.transfer.protocol is NixlPull, whose engines don't say what moved: look at their metrics vllm:nixl_*,"
            " or set it to Push"
        )
    if spec.verification and spec.verification.enabled is False:
        return "spec.verification.enabled is false, so no conversation is held: set it to true, and ask again"
    return None


def verification(
    resource: DisaggregatedInference, pods: Sequence[EnginePod], now: datetime, problem: InvalidSpec | None = None
) -> RequestedVerification | None:
    """How far the newest request is; None: there is none.

    Args:
        resource: with its previous status.
        pods: its engines that are as the spec says, as they are now.
        now: with a time zone.
        problem: why the spec can't be acted on, if it can't.
    """
    value = _asked(resource)
    last = resource.status.verification if resource.status else None
    if not value:
        return None
    if not _is_name(value):
        return refused(value, "", last, now)
    if not open_request(resource):
        return last
    running = last if last and last.request == value else None
    pairs = tried(pods, value)
    why = str(problem) if problem else why_never(resource.spec) or ("" if pairs or running else _NO_PAIR)
    return refused(value, why, last, now) if why else _progress(value, running, pairs, now)


def refused(value: str, why: str, last: RequestedVerification | None, now: datetime) -> RequestedVerification:
    """The answer to a request for which nothing can be done; one that isn't even well-formed says so itself."""
    request = value if _is_name(value) else ""
    answer = RequestedVerification(
        request=request,
        state=RequestState.REFUSED,
        since=stamp(now),
        message=(why if request else _malformed(value))[:1024],
    )
    same = last is not None and (last.request, last.state, last.message) == (request, answer.state, answer.message)
    return last if last is not None and same else answer


def ends_in(answer: RequestedVerification | None, now: datetime) -> timedelta | None:
    """Until a request that runs is over at the latest."""
    if answer is None or answer.state is not RequestState.RUNNING or answer.until is None:
        return None
    # Times have whole seconds.
    return max(datetime.fromisoformat(answer.until) - now, timedelta()) + timedelta(seconds=1)


def running_request(answer: RequestedVerification | None) -> str:
    """The one that conversations are to be held for; empty: none."""
    return answer.request if answer and answer.state is RequestState.RUNNING else ""


def refusal_of(last: RequestedVerification | None, answer: RequestedVerification | None) -> tuple[EventType, ...]:
    """The Event of a request that was refused just now."""
    if answer is None or answer.state is not RequestState.REFUSED or answer == last:
        return ()
    return (EventType(Reason.VERIFICATION_REFUSED, warning=True, message=answer.message),)


def _asked(resource: DisaggregatedInference) -> str:
    return (resource.metadata.annotations or {}).get(VERIFY_ANNOTATION, "")


def _is_name(value: str) -> bool:
    return _FORM.fullmatch(value) is not None


def _malformed(value: str) -> str:
    shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
    return (
        f"metadata.annotations[{VERIFY_ANNOTATION}] is {shown!r}: give it 1 to 64 letters, digits and . : _ + -,"
        " beginning with a letter or digit, such as the time"
    )


def _progress(
    value: str, running: RequestedVerification | None, pairs: Sequence[Tried], now: datetime
) -> RequestedVerification:
    since = running.since if running else stamp(now)
    until = running.until if running and running.until else stamp(now + LONGEST + len(pairs) * LONGEST_EACH)
    left = sum(each.standing is None for each in pairs)
    shown = sum(each.standing is Standing.SHOWN for each in pairs)
    failed = [each for each in pairs if each.standing is Standing.FAILED]
    if pairs and not left:
        state = RequestState.ANSWERED
    else:
        state = RequestState.TIMED_OUT if now >= datetime.fromisoformat(until) else RequestState.RUNNING
    return RequestedVerification(
        request=value,
        state=state,
        since=since,
        until=until,
        pairs=len(pairs),
        shown=shown,
        failed=len(failed),
        message=_message(pairs, shown, failed, left)[:1024],
    )


def _message(pairs: Sequence[Tried], shown: int, failed: Sequence[Tried], left: int) -> str:
    counts = f"{shown} of {len(pairs)} pairs have shown that KV moves both ways and answers are right"
    rest = f", {left} are still to answer" if left else ""
    unsure = next((each for each in pairs if each.standing is Standing.OPEN), None)
    told = failed[0] if failed else unsure
    if told is None or told.record is None:
        return f"{counts}{rest}"
    more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
    why = f"{told.decode.name} with {told.prefill.name}: {told.record.reason}: {told.record.detail}"
    return f"{counts}{rest}; {why}{more}"
