# SPDX-License-Identifier: Apache-2.0
"""Events on a resource, as `events.k8s.io/v1` objects."""

import hashlib
from datetime import datetime
from typing import Final

from tandem_operator.api import names
from tandem_operator.kube.kinds import EVENT
from tandem_operator.plan.types import EventType, Manifest

CONTROLLER: Final = f"{names.GROUP}/operator"
_LONGEST_NOTE: Final = 1024
"""In bytes; `pkg/apis/core/validation/events.go` in Kubernetes."""


def event(resource: Manifest, occurred: EventType, *, reporter: str, at: datetime) -> Manifest:
    """The Event object. Its name depends on all arguments, so one that is sent twice is made once.

    Args:
        resource: the DisaggregatedInference that it is about.
        occurred: what happened.
        reporter: this process.
        at: when, with a time zone.
    """
    metadata = resource["metadata"]
    time = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    content = "\n".join((metadata["uid"], *map(str, occurred), reporter, time))
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{metadata['name']}.{hashlib.sha256(content.encode()).hexdigest()[:16]}",
            "namespace": metadata["namespace"],
        },
        "eventTime": time,
        "type": "Warning" if occurred.warning else "Normal",
        "reason": occurred.reason,
        "note": occurred.message.encode()[:_LONGEST_NOTE].decode(errors="ignore"),
        "action": "Reconcile",
        "reportingController": CONTROLLER,
        "reportingInstance": reporter[:128],
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
    }
