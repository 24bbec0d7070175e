# SPDX-License-Identifier: Apache-2.0
"""Colours and signs of states."""

from typing import Final

from rich.text import Text

from tandem_operator.api.status import Condition, ConditionStatus, ConditionType
from tandem_operator.kubectl.views.engine import PairState, State

_STATES: Final = {
    State.PENDING: "yellow",
    State.STARTING: "yellow",
    State.FAILING: "bold red",
    State.READY: "green",
    State.QUARANTINED: "bold red",
    State.DRAINING: "blue",
}
_PAIRS: Final = {
    PairState.SHOWN: ("✓", "green"),
    PairState.FAILED: ("✗", "bold red"),
    PairState.OPEN: ("·", "default"),
    PairState.SETTLING: ("…", "yellow"),
}
_BAD_WHEN_TRUE: Final = frozenset({ConditionType.DEGRADED, ConditionType.SCALING_LIMITED})
_NEITHER: Final = frozenset({ConditionType.PROGRESSING})


def state(of: State) -> Text:
    """In its colour."""
    return Text(of.value, style=_STATES[of])


def pair(of: PairState) -> Text:
    """A sign of one column, in its colour."""
    sign, style = _PAIRS[of]
    return Text(sign, style=style)


def condition(of: Condition) -> Text:
    """Its status, in the colour of what that means."""
    if of.status is ConditionStatus.UNKNOWN or of.type in _NEITHER:
        return Text(of.status.value, style="yellow" if of.status is not ConditionStatus.FALSE else "default")
    is_bad = (of.status is ConditionStatus.TRUE) == (of.type in _BAD_WHEN_TRUE)
    return Text(of.status.value, style="bold red" if is_bad else "green")
