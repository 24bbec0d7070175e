# SPDX-License-Identifier: Apache-2.0
"""Which steps in flight have something to tell.

With asynchronous scheduling, vLLM's default on GPUs, a step is scheduled before the output of the one before was looked at,
also when both are empty (`EngineCore.step_with_batch_queue`). An empty step that sleeps while it is scheduled holds up
that output, and with it all that the ranks have reported.
"""

from tandem_connector.exchange.types import StepId


class Overlap:
    """Steps are scheduled in order, and their outputs seen in order."""

    def __init__(self) -> None:
        self._awaited = StepId(0)
        self._seen = StepId(0)

    def scheduled(self, step: StepId, *, tells: bool) -> None:
        """A step was scheduled. `tells`: its output matters, because it computes or carries something, or a rank has rung."""
        if tells:
            self._awaited = step

    def seen(self, step: StepId) -> None:
        """The step's output was looked at."""
        self._seen = max(self._seen, step)

    @property
    def may_sleep(self) -> bool:
        """Whether the next step, if it is empty, may sleep: no output that matters is in flight."""
        return self._seen >= self._awaited
