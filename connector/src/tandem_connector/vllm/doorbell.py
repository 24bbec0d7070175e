# SPDX-License-Identifier: Apache-2.0
"""How the ranks and the connector's threads make an engine look that sleeps between two empty steps.

vLLM steps an engine that waits for blocks a thousand times a second, and a worker spins for a second after each step
(`SpinCondition` in `distributed/device_communicators/shm_broadcast.py`). The scheduler's side therefore sleeps in each
empty step until somebody rings, and lets the step go on only when the ranks or the scheduler have something to do. The
ranks are other processes: they ring through a datagram socket of the machine, whose name follows from the engine's id.
It lives in Linux's abstract namespace: no file is left behind.
"""

import contextlib
import hashlib
import select
import socket
from enum import Enum
from typing import Final

from tandem_connector.exchange.types import EngineId

_MANY: Final = 64


class Ring(Enum):
    """Who rings."""

    RANK = b"r"
    """Has something to report, which it can only with a step."""
    INPUT = b"i"
    """Something is in the engine's input queue, which is looked at between steps."""
    NEWS = b"n"
    """A thread of this side has something to tell."""


def _address(engine: EngineId) -> str:
    return "\0tandem-" + hashlib.sha256(engine.encode()).hexdigest()[:32]


class Doorbell:
    """The scheduler's end."""

    def __init__(self, engine: EngineId) -> None:
        """Listen.

        Raises:
            OSError: another process of this machine has the engine's id.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.bind(_address(engine))
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._ringer = BellPush(engine)

    def ring(self, who: Ring) -> None:
        """End a wait, this one or the next; from any thread."""
        self._ringer.ring(who)

    def wait(self, seconds: float) -> frozenset[Ring]:
        """Sleep until somebody rings; who did since the last call, nobody if the time has passed."""
        self._poll.poll(max(0.0, seconds * 1000))
        rung = set()
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MANY):
                rung.add(Ring(self._socket.recv(1)))
        return frozenset(rung)

    def close(self) -> None:
        """Stop listening."""
        self._ringer.close()
        self._socket.close()


class BellPush:
    """A rank's end, or another thread's."""

    def __init__(self, engine: EngineId) -> None:
        self._address = _address(engine)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def ring(self, who: Ring) -> None:
        """Ring; nothing when nobody listens (another machine), or enough is in the queue already."""
        with contextlib.suppress(OSError):
            self._socket.sendto(who.value, self._address)

    def close(self) -> None:
        """Don't ring again."""
        self._socket.close()
