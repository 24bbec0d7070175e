# SPDX-License-Identifier: Apache-2.0
"""How far a request for verification is, and what came of each pair."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from tandem_operator.api.base import ApiModel
from tandem_operator.api.names import VERIFY_ANNOTATION
from tandem_operator.api.status import Reason, RequestedVerification, RequestState, Status
from tandem_operator.kubectl.views.remedies import EXPLAIN, STATUS, next_command
from tandem_operator.kubectl.views.seen import Seen
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.rounds import Tried, tried


class Verdict(StrEnum):
    """What came of one pair."""

    WAITING = "waiting"
    """Nothing yet that counts."""
    SHOWN = "shown"
    """KV moved both ways, and the answer was right."""
    FAILED = "failed"
    """It failed as often as it takes to believe it."""
    OPEN = "open"
    """It can't be told."""


class Course(StrEnum):
    """How far the request is."""

    ASKED = "Asked"
    """The operator hasn't taken it up yet."""
    RUNNING = "Running"
    ANSWERED = "Answered"
    TIMED_OUT = "TimedOut"
    REFUSED = "Refused"
    SUPERSEDED = "Superseded"
    """Somebody has asked anew, or has taken the annotation away."""
    LEFT = "Left"
    """It wasn't waited for any longer. The operator goes on with it."""


_NEXT: Final = {
    Course.RUNNING: STATUS,
    Course.SUPERSEDED: STATUS,
}


class PairVerdict(ApiModel):
    """One pair."""

    decode: str
    prefill: str
    verdict: Verdict
    reason: str
    """In one word, of what conversations have shown last; empty: nothing yet."""
    detail: str
    next: str | None
    """The command to go on with; None: there is nothing to do."""


class VerifyView(ApiModel):
    """The request, as it stands."""

    namespace: str
    name: str
    request: str
    state: Course
    message: str
    pairs: tuple[PairVerdict, ...]
    next: str | None
    """The command to go on with; None: there is nothing to do."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in (Course.ASKED, Course.RUNNING)

    @property
    def is_well(self) -> bool:
        """Whether each pair has shown that KV moves."""
        shown = bool(self.pairs) and all(pair.verdict is Verdict.SHOWN for pair in self.pairs)
        return self.state is Course.ANSWERED and shown


def verify_view(seen: Seen, request: str) -> VerifyView:
    """How far the request is that was made by this value of the annotation."""
    resource = seen.observed.resource
    metadata, status = resource.metadata, resource.status or Status()
    course, message = _course(request, (metadata.annotations or {}).get(VERIFY_ANNOTATION), status.verification)
    pairs = tuple(_pairs(seen, status, request)) if course is not Course.REFUSED else ()
    own = next((pair.next for pair in pairs if pair.next), None)
    lacks = course is not Course.ANSWERED or not pairs or any(pair.verdict is not Verdict.SHOWN for pair in pairs)
    return VerifyView(
        namespace=metadata.namespace,
        name=metadata.name,
        request=request,
        state=course,
        message=message,
        pairs=pairs,
        next=own
        or (_NEXT.get(course, EXPLAIN).format(name=metadata.name, namespace=metadata.namespace) if lacks else None),
    )


def not_waited_for(view: VerifyView, seconds: float) -> VerifyView:
    """The same when nobody waits any longer."""
    if view.state is Course.ASKED:
        words = (
            f"the operator hasn't taken it up within {seconds:g} s: it is down, has no right to the namespace,"
            " or is older than this kubectl-tandem"
        )
        look = "kubectl get deployments,leases --all-namespaces --selector app.kubernetes.io/part-of=tandem"
        return view.model_copy(update={"state": Course.LEFT, "message": words, "next": look})
    words = f"not over after {seconds:g} s, and the operator goes on with it: {view.message}"
    return view.model_copy(update={"state": Course.LEFT, "message": words})


def _course(request: str, annotation: str | None, answer: RequestedVerification | None) -> tuple[Course, str]:
    if annotation != request:
        return Course.SUPERSEDED, "somebody has asked anew, or taken the request away, before it was answered"
    if answer is None or answer.request != request:
        return Course.ASKED, "the operator hasn't taken it up yet"
    courses = {
        RequestState.RUNNING: Course.RUNNING,
        RequestState.ANSWERED: Course.ANSWERED,
        RequestState.TIMED_OUT: Course.TIMED_OUT,
        RequestState.REFUSED: Course.REFUSED,
    }
    return courses[answer.state], answer.message


def _pairs(seen: Seen, status: Status, request: str) -> Iterator[PairVerdict]:
    metadata = seen.observed.resource.metadata
    # The operator converses with engines that are as the spec says.
    wanted = status.revision.next or status.revision.current
    for each in tried([pod for pod in seen.pods if pod.revision == wanted], request):
        verdict = _verdict(each)
        reason = str(each.record.reason) if each.record else ""
        failed = verdict in (Verdict.FAILED, Verdict.OPEN)
        yield PairVerdict(
            decode=each.decode.name,
            prefill=each.prefill.name,
            verdict=verdict,
            reason="" if reason == Reason.VERIFIED else reason,
            detail=each.record.detail if each.record else "",
            next=next_command(reason, metadata.namespace, metadata.name) if failed else None,
        )


def _verdict(pair: Tried) -> Verdict:
    match pair.standing:
        case None:
            return Verdict.WAITING
        case Standing.SHOWN:
            return Verdict.SHOWN
        case Standing.FAILED:
            return Verdict.FAILED
        case Standing.OPEN:
            return Verdict.OPEN
