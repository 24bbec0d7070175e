# SPDX-License-Identifier: Apache-2.0
"""Measures what this engine's steps and wants take, for `exchange.worth`."""

from typing import Final

from tandem_connector.exchange.commands import LandingEnded, LoadEnded
from tandem_connector.exchange.types import EndReason, Purpose, Seconds, StepId
from tandem_connector.exchange.worth import Worth

_HELD_ALREADY: Final = frozenset({Purpose.REVERSE_FETCH, Purpose.REVERSE_PUSH})
"""What such a want asks for is there: it takes as long as moving takes. Forward, it takes as long as P computes."""
_TELLING: Final = frozenset({EndReason.COMPLETE, EndReason.EXPIRED})
"""Other ends say nothing of speed; one that expired took at least so long."""


class Measuring:
    """Scheduler's thread."""

    def __init__(self, worth: Worth) -> None:
        self._worth = worth
        self._steps: dict[StepId, tuple[Seconds, int]] = {}
        """When each step in flight was scheduled, and the prompt tokens that it computes."""
        self._ran = Seconds(0.0)

    def scheduled(self, step: StepId, prompt_tokens: int, now: Seconds) -> None:
        """A step that computes something was scheduled."""
        self._steps[step] = (now, prompt_tokens)

    def ran(self, step: StepId, now: Seconds) -> None:
        """This step, and all before it, have run; the workers run them one after the other."""
        done = [self._steps.pop(each) for each in [each for each in self._steps if each <= step]]
        if not done:
            return
        began = max(self._ran, min(at for at, _ in done))
        tokens = sum(tokens for _, tokens in done)
        if tokens:
            self._worth.computed(tokens, now - began, now)
        self._ran = now

    def ended(self, want: LoadEnded | LandingEnded, now: Seconds) -> None:
        """An own want has ended."""
        if want.purpose in _HELD_ALREADY and want.reason in _TELLING:
            blocks = want.wanted if isinstance(want, LandingEnded) else len(want.good) + len(want.bad)
            self._worth.moved(blocks, want.waited, now)
