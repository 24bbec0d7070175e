# SPDX-License-Identifier: Apache-2.0
"""What the rules of the definition refuse of roll-outs, in their own words."""

from typing import Final

from e2e.suite.refusals import Refusal, spec

_DEADLINE: Final = "must be above 0s and at most 24h, for example 30m"

ROLLOUT_REFUSALS: Final = (
    Refusal(
        "no time for a roll-out",
        "spec.rollout.progressDeadline",
        _DEADLINE,
        spec(rollout={"progressDeadline": "0s"}),
        spec(rollout={"progressDeadline": "1s"}),
    ),
    Refusal(
        "a roll-out that may take for ever",
        "spec.rollout.progressDeadline",
        _DEADLINE,
        spec(rollout={"progressDeadline": "24h1s"}),
        spec(rollout={"progressDeadline": "24h"}),
    ),
    Refusal(
        "a surge where all engines go first",
        "spec.rollout.maxSurgePairs",
        "has no effect with spec.rollout.strategy: Recreate; remove the field, or set that to Paired",
        spec(rollout={"strategy": "Recreate", "maxSurgePairs": 1}),
        spec(rollout={"strategy": "Paired", "maxSurgePairs": 1}),
    ),
)
"""Part of the refusals by the rules."""
