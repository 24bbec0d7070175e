# SPDX-License-Identifier: Apache-2.0
"""What the two ends of a window agree on: `e2e.exchange.inspected` in the engine, `e2e.exchange.window` in the test."""

from enum import StrEnum


class Side(StrEnum):
    """Which of the engine's processes is asked."""

    SCHEDULER = "scheduler"
    RANK = "rank"


def address_of(engine: str, side: Side) -> str:
    """Where the process listens: in Linux's abstract namespace, so that no file is left behind."""
    return f"\0tandem-window-{engine}-{side.value}"
