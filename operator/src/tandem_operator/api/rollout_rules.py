# SPDX-License-Identifier: Apache-2.0
"""The rules on roll-outs, which the API server checks."""

from typing import Final

from tandem_operator.api.rule import Rule, Verdict

LONGEST_PROGRESS: Final = "24h"

ROLLOUT_RULES: Final = (
    Rule(
        holds="!has(self.progressDeadline) || (duration(self.progressDeadline) > duration('0s')"
        f" && duration(self.progressDeadline) <= duration('{LONGEST_PROGRESS}'))",
        message=f"must be above 0s and at most {LONGEST_PROGRESS}, for example 30m",
        at=".progressDeadline",
        verdict=Verdict.INVALID,
    ),
    Rule(
        holds="!has(self.maxSurgePairs) || self.?strategy.orValue('Paired') == 'Paired'",
        message="has no effect with spec.rollout.strategy: Recreate; remove the field, or set that to Paired",
        at=".maxSurgePairs",
    ),
)
