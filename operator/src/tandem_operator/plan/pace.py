# SPDX-License-Identifier: Apache-2.0
"""What the spec says of roll-outs, with nothing left open."""

from datetime import timedelta
from typing import Final

from tandem_operator.api.rollout import Rollout, Strategy
from tandem_operator.api.rollout_rules import LONGEST_PROGRESS
from tandem_operator.api.values import seconds_of
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.resolved import Pace

PROGRESS_SECONDS: Final = 3600.0
"""700 GB of weights take an hour at 200 MB/s."""


def pace_of(given: Rollout) -> Pace:
    """How revisions follow each other.

    Raises:
        InvalidSpec: there is no time for it, or too much.
    """
    patience = PROGRESS_SECONDS if given.progress_deadline is None else seconds_of(given.progress_deadline)
    if not 0 < patience <= seconds_of(LONGEST_PROGRESS):
        raise InvalidSpec(
            "spec.rollout.progressDeadline", f"must be above 0s and at most {LONGEST_PROGRESS}, for example 30m"
        )
    return Pace(
        at_once=given.strategy is Strategy.RECREATE,
        surge=1 if given.max_surge_pairs is None else given.max_surge_pairs,
        patience=timedelta(seconds=patience),
        paused=given.paused is True,
    )
