# SPDX-License-Identifier: Apache-2.0
"""What the network did, as numbers for metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class NetworkCounts:
    """Messages since the engine began. All only grow; read from any thread."""

    sent: int = 0
    unsent: int = 0
    """Not sent, because there is no connection to the peer, or it takes nothing."""
    received: int = 0
    """Everything that was read, whatever it was."""
    garbage: int = 0
    """Was no message."""
    strangers: int = 0
    """From an engine that is not in the table, has not said Hello, or may not speak any more."""
    misaddressed: int = 0
    """For another incarnation at this address."""
    unexpected: int = 0
    """A message where it means nothing."""
    overflowed: int = 0
    """Thrown away because the owner took nothing for too long."""
    denied: int = 0
    """Connections without the resource's key."""
