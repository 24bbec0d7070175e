# SPDX-License-Identifier: Apache-2.0
"""What an API server's answers say besides what was asked for: how long to wait, what is wrong, what to do."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from tandem_operator.kube.errors import Conflict, Gone, ImmutableField, Refused, Requeue

_IMMUTABLE_MARKS: Final = ("field is immutable", "updates to statefulset spec", "may not change", "cannot change")
"""How API servers word that a field can't be changed in place. There is no machine-readable reason for it:
`apimachinery/pkg/api/validation/objectmeta.go` and `apis/apps/validation/validation.go` in Kubernetes use FieldValueInvalid and
FieldValueForbidden, as for any other wrong value."""


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server wants to be left alone for; API servers send whole seconds, never a date."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


def status_object(content: str) -> Mapping[str, Any]:
    """A Status object; of anything else (a proxy's page) the beginning as its message."""
    try:
        status = json.loads(content)
    except ValueError:
        status = None
    return status if isinstance(status, dict) else {"message": content[:500]}


def permanent(status: int, message: str, answer: Mapping[str, Any]) -> Exception:
    """The error for a status that asking again won't change."""
    match status:
        case 404 | 410:
            return Gone(message)
        case 409:
            return Conflict(message)
        case 401:
            # The token file is read again every minute, so a rotated token heals by waiting.
            return Requeue(f"{message} (the operator's credentials are not accepted)", timedelta(seconds=30))
        case 422 if "metadata.uid" in _causes(answer):
            # How an apply with the uid of a former object of this name is turned down.
            return Conflict(message)
        case 422 if any(mark in message for mark in _IMMUTABLE_MARKS):
            return ImmutableField(message)
        case _:
            return Refused(message)


def _causes(answer: Mapping[str, Any]) -> set[str]:
    """The fields that a Status object complains about."""
    details = answer.get("details") or {}
    return {cause.get("field", "") for cause in details.get("causes") or ()}
