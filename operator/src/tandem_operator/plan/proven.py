# SPDX-License-Identifier: Apache-2.0
"""Whether an engine has shown that it works, and may take turns as far as it itself goes."""

from tandem_operator.plan.pods import EnginePod


def is_proven(pod: EnginePod) -> bool:
    """Whether the engine answers, and isn't about to end."""
    return pod.ready and not pod.terminating
