# SPDX-License-Identifier: Apache-2.0
"""How the plugin ends."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit status."""

    WELL = 0
    """It was done, and what was looked at is well."""
    NOT_WELL = 1
    """It was looked at, and isn't well: not ready, a fault was found, a pod wasn't drained, a turn wasn't answered, a pair
    wasn't verified."""
    USAGE = 2
    """The command line, or a file that it names, can't be acted on."""
    NOT_FOUND = 3
    """There is no such object."""
    NO_CLUSTER = 4
    """The cluster can't be reached, or doesn't allow it."""
    INTERRUPTED = 130
    """By the keyboard. A pod whose eviction was asked for drains all the same."""


class Failed(Exception):  # noqa: N818 -- says what the command did
    """The command can't go on; the text says why and what to do."""

    def __init__(self, exit_: Exit, message: str) -> None:
        super().__init__(message)
        self.exit = exit_
