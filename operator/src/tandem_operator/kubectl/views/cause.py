# SPDX-License-Identifier: Apache-2.0
"""One link of a chain of causes."""

from collections.abc import Sequence

from tandem_operator.api.base import ApiModel
from tandem_operator.kubectl.views.seen import when
from tandem_operator.plan.types import Manifest

_MOST_EVENTS = 3


class Cause(ApiModel):
    """Something that is so, and what it is because of."""

    subject: str
    """What it is about: `pod qwen-decode-0`."""
    reason: str
    """In one word."""
    message: str
    """In a sentence."""
    because: tuple["Cause", ...] = ()
    next: str | None = None
    """The command to go on with."""

    def first_command(self) -> str | None:
        """Of the deepest cause that has one: that is where it begins."""
        deeper = (command for each in self.because if (command := each.first_command()))
        return next(deeper, self.next)


def event_causes(events: Sequence[Manifest]) -> tuple[Cause, ...]:
    """The newest of these Events."""
    return tuple(
        Cause(
            subject=f"event {when(event)}".strip(),
            reason=str(event.get("reason") or ""),
            message=str(event.get("note") or ""),
        )
        for event in events[:_MOST_EVENTS]
    )
