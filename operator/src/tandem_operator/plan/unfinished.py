# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a roll-out that doesn't come to its end."""

from collections.abc import Sequence

from tandem_operator.api.names import GIVEN_UP_ANNOTATION, revision_name
from tandem_operator.api.status import Reason
from tandem_operator.plan.deadline import why_missed
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.rollout import Rollout
from tandem_operator.plan.troubles import Trouble
from tandem_operator.plan.types import Observed


def rollout_trouble(observed: Observed, pods: Sequence[EnginePod], course: Rollout) -> Trouble | None:
    """That the spec's revision was given up, or would be if there were one to go back to."""
    wanted, pace = course.wanted, course.resolved.pace
    if wanted.given_up:
        record = revision_name(course.resolved.name, wanted.name)
        return Trouble(
            Reason.ROLLED_BACK,
            f"revision {wanted.name} was given up: {wanted.given_up}; engines are of revision {course.target.name}. Correct the spec,"
            f" or try it again with `kubectl annotate controllerrevision {record} {GIVEN_UP_ANNOTATION}-`",
        )
    if pace.paused or wanted.was_complete:
        return None
    is_up = sum(course.standing.groups[wanted.name].proven) >= sum(course.sized.wanted)
    if is_up and not course.awaits_proof:
        return None
    why = why_missed(observed, course.resolved, wanted.name, course.sets, pods)
    if why is None:
        return None
    return Trouble(
        Reason.PROGRESS_DEADLINE,
        f"revision {wanted.name}: {why}. There is no complete revision to go back to: correct the spec, or wait",
    )
