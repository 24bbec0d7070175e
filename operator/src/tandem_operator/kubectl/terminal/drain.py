# SPDX-License-Identifier: Apache-2.0
"""What becomes of pods that are drained, a line each."""

from rich.text import Text

from tandem_operator.kubectl.views.drain import Drain, Drained


def drain_line(drain: Drain) -> Text:
    """Before it is evicted."""
    heir = f"hands over to {drain.heir}" if drain.heir else "has nobody to hand over to"
    return Text.assemble((drain.pod, "bold"), f" {heir}; {drain.left} {drain.role} engines take turns without it")


def drained_line(drained: Drained) -> Text:
    """What came of it."""
    return Text.assemble((drained.drain.pod, "bold"), " ", (drained.words, "green" if drained.done else "bold red"))
