# SPDX-License-Identifier: Apache-2.0
"""The status of a resource that this operator can't parse, though the API server let it pass (say, with a newer CRD)."""

from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tandem_operator.api.names import VERIFY_ANNOTATION
from tandem_operator.api.status import ConditionStatus, ConditionType, Reason, RequestedVerification, RequestState
from tandem_operator.plan.requests import refused
from tandem_operator.plan.stamp import stamp
from tandem_operator.plan.types import EventType, Manifest


def unreadable_status(
    stored: Manifest, error: ValidationError, now: datetime
) -> tuple[dict[str, Any], list[EventType]]:
    """The stored status with `SpecValid` and `Ready` false, naming the field; and the Event, if it is not known yet.

    Everything else in the status stays as it is: nothing was changed, so what runs goes on running.
    """
    message = _explain(error)
    old = stored.get("status") or {}
    generation = stored["metadata"].get("generation", 1)
    former = {condition["type"]: condition for condition in old.get("conditions", ())}
    unknown = {"status": ConditionStatus.UNKNOWN.value, "reason": Reason.INVALID.value, "message": message}
    false = {**unknown, "status": ConditionStatus.FALSE.value}
    conditions = []
    for kind in ConditionType:
        is_false = kind in (ConditionType.SPEC_VALID, ConditionType.READY)
        content = false if is_false else former.get(kind.value, unknown)
        conditions.append(_condition(kind, content, former.get(kind.value), generation, now))
    known = former.get(ConditionType.SPEC_VALID.value, {})
    is_news = (known.get("status"), known.get("message")) != (ConditionStatus.FALSE.value, message)
    events = [EventType(Reason.INVALID.value, warning=True, message=message)] if is_news else []
    status = {**old, "observedGeneration": generation, "conditions": conditions}
    if asked := (stored["metadata"].get("annotations") or {}).get(VERIFY_ANNOTATION):
        status["verification"] = _refusal(asked, message, old.get("verification"), now)
    return status, events


def _refusal(asked: str, message: str, former: object, now: datetime) -> dict[str, Any]:
    try:
        last = RequestedVerification.model_validate(former)
    except ValidationError:
        last = None
    if last and last.request == asked and last.state is not RequestState.RUNNING:
        return last.model_dump(mode="json", by_alias=True, exclude_none=True)
    return refused(asked, message, last, now).model_dump(mode="json", by_alias=True, exclude_none=True)


def _condition(
    kind: ConditionType, content: dict[str, Any], former: dict[str, Any] | None, generation: int, now: datetime
) -> dict[str, Any]:
    is_same = former is not None and former["status"] == content["status"]
    return {
        "type": kind.value,
        "status": content["status"],
        "observedGeneration": generation,
        "lastTransitionTime": former["lastTransitionTime"] if former and is_same else stamp(now),
        "reason": content["reason"],
        "message": content["message"],
    }


def _explain(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5]]
    return "this version of the operator cannot read " + "; ".join(problems)
