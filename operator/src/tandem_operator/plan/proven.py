# SPDX-License-Identifier: Apache-2.0
"""Whether an engine may take turns, as far as it itself goes. Whether a revision's first ones may, `plan/rollout.py` says."""

from tandem_operator.plan.pods import EnginePod


def is_proven(pod: EnginePod) -> bool:
    """Whether the engine answers, and isn't about to end."""
    return pod.ready and not pod.terminating
