# SPDX-License-Identifier: Apache-2.0
"""Whether two engines fit, and how far each peer has come."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_connector.contract.messages import Hello
from tandem_connector.exchange.types import EngineId


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this engine is."""

    engine: EngineId
    hello: Hello
    """What it tells each peer of itself; `answer` is set as needed."""


class Stage(StrEnum):
    """How far it has come with a peer of the table."""

    GREETING = "greeting"
    """Not both have said Hello."""
    JOINED = "joined"
    REFUSED = "refused"
    """It doesn't fit. Final for this incarnation, as the following are."""
    DROPPED = "dropped"
    """It broke the protocol."""
    REPLACED = "replaced"
    """Another engine has its address."""

    @property
    def has_met(self) -> bool:
        """Whether it had joined, and lives as far as is known."""
        return self in {Stage.JOINED, Stage.DROPPED}

    @property
    def is_final(self) -> bool:
        """Whether nothing is ever said to this incarnation, or taken from it, again."""
        return self not in {Stage.GREETING, Stage.JOINED}


def refusal(own: Hello, theirs: Hello) -> str | None:
    """Why these two may not exchange blocks, by name of each field that differs; None if they may."""
    if own.version != theirs.version:
        return f"version: {own.version} != {theirs.version}"
    differences = list(own.fingerprint.differences(theirs.fingerprint))
    if len(theirs.ranks) != len(own.ranks):
        differences.append(f"ranks: {len(own.ranks)} != {len(theirs.ranks)}")
    return "; ".join(differences) or None
