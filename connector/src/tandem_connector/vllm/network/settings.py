# SPDX-License-Identifier: Apache-2.0
"""The network's numbers."""

from dataclasses import dataclass

from tandem_connector.exchange.liveness import DEFAULTS, LivenessSettings


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Times in seconds, and bounds."""

    liveness: LivenessSettings = DEFAULTS
    hello_interval: float = 1.0
    """Between two Hellos to a peer that hasn't answered: its peer table may be older than this engine's."""
    stall: float = 0.5
    """By how much the thread must wake up late to take it that this process was stopped."""
    stall_grace: float = 0.2
    """After that, how long to read what has come before judging who was silent."""
    send_queue: int = 1_000
    """Most messages that wait to be sent to one peer."""
    receive_queue: int = 64
    """Most messages of one peer that wait to be read; then the peer's connection is slowed."""
    sockets: int = 8_192
    """Most sockets, one for each peer and few more: a peer table of the greatest length names no more."""
    inbox_bytes: int = 64 << 20
    """Most bytes of messages that wait for the owner."""
    dead_connection: float = 10.0
    """After which a connection is closed whose other end doesn't acknowledge what was sent."""
    reconnect: float = 0.1
    """First pause before another attempt to connect; it doubles."""
    reconnect_longest: float = 2.0
    key_attempt: float = 0.5
    """How long to try to reach a peer by one key, at least, while there is another one."""
    linger: float = 0.5
    """How long what was sent may still go out when the network is closed."""
