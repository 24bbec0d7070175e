# SPDX-License-Identifier: Apache-2.0
"""How much time an engine has to end, and for what."""

import math
from dataclasses import dataclass
from typing import Final

from tandem_operator.api.rules import LONGEST_DRAIN, SHORTEST_DRAIN
from tandem_operator.api.values import seconds_of
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.types import Manifest

DRAIN_SECONDS: Final = 60
"""Default time for an engine that exchanges to hand over what it holds and finish its requests, before it is sent SIGTERM."""
AFTER_DRAIN_SECONDS: Final = 60
"""Default time from then on to SIGKILL."""
GRACE_SECONDS: Final = 90
"""Default time that another engine has to end, from the deletion of its pod to SIGKILL."""
MINIMAL_GRACE_SECONDS: Final = 15
MINIMAL_REST_SECONDS: Final = 8
"""Of the grace period, for what comes after SIGTERM."""


@dataclass(frozen=True)
class Ending:
    """The parts of an engine's end, in seconds."""

    grace: int
    """From the deletion of the pod to SIGKILL."""
    drain: int | None
    """At most, from the deletion to SIGTERM. None: the engine doesn't hand over anything."""
    shutdown: int
    """How long it finishes its requests after SIGTERM; ends well before the grace period does."""


def ending(overlay: Manifest, role: str, *, exchanges: bool, timeout: str | None) -> Ending:
    """The time for the end of a role's engines.

    Args:
        overlay: the role's `podTemplate`, whose grace period vLLM has to be told of too: it ends by itself before the kubelet ends it.
        role: for messages.
        exchanges: whether the engines hold what others can use.
        timeout: `spec.scaling.drain.timeout`.

    Raises:
        InvalidSpec: when there is no time to finish requests.
    """
    grace = _grace(overlay, f"spec.{role}.podTemplate.spec.terminationGracePeriodSeconds")
    if not exchanges:
        grace = grace or GRACE_SECONDS
        return Ending(grace=grace, drain=None, shutdown=grace * 2 // 3)
    drain = _seconds(timeout) if timeout is not None else grace // 2 if grace else DRAIN_SECONDS
    grace = grace or drain + AFTER_DRAIN_SECONDS
    if grace - drain < MINIMAL_REST_SECONDS:
        raise InvalidSpec(
            "spec.scaling.drain.timeout",
            f"is {drain}s of the {grace}s that spec.{role}.podTemplate.spec.terminationGracePeriodSeconds gives an engine to end,"
            " which leaves too little for the rest; shorten it, or remove that field",
        )
    return Ending(grace=grace, drain=drain, shutdown=(grace - drain) * 2 // 3)


def _grace(overlay: Manifest, field: str) -> int | None:
    spec = overlay.get("spec")
    value = spec.get("terminationGracePeriodSeconds") if isinstance(spec, dict) else None
    if value is not None and (not isinstance(value, int) or value < MINIMAL_GRACE_SECONDS):
        raise InvalidSpec(
            field, f"must be a whole number of at least {MINIMAL_GRACE_SECONDS}, so that requests can be finished"
        )
    return value


def _seconds(timeout: str) -> int:
    seconds = seconds_of(timeout)
    if not seconds_of(SHORTEST_DRAIN) <= seconds <= seconds_of(LONGEST_DRAIN):
        raise InvalidSpec(
            "spec.scaling.drain.timeout", f"must be from {SHORTEST_DRAIN} to {LONGEST_DRAIN}, for example 60s"
        )
    return math.ceil(seconds)
