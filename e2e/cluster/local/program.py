# SPDX-License-Identifier: Apache-2.0
"""A program of the cluster: how it is started and how one sees that it works."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """One process to start, and when it counts as started."""

    name: str
    argv: list[str]
    health: str | None = None
    """A URL that answers 200 once it works; None where something later shows it."""
