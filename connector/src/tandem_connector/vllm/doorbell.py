# SPDX-License-Identifier: Apache-2.0
"""How the ranks and the connector's threads make an engine look that sleeps between two empty steps.

vLLM steps an engine that waits for blocks a thousand times a second. The scheduler's side therefore sleeps in each empty
step, until somebody rings or some time has passed. The ranks are other processes: they ring through a datagram socket of
the machine, whose name follows from the engine's id. It lives in Linux's abstract namespace: no file is left behind.
"""

import contextlib
import hashlib
import select
import socket
from typing import Final

from tandem_connector.exchange.types import EngineId

_MANY: Final = 64
_RING: Final = b"\0"


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
        self._ringer = BellPush(engine)

    def ring(self) -> None:
        """End a wait, this one or the next; from any thread."""
        self._ringer.ring()

    def wait(self, seconds: float) -> bool:
        """Sleep until somebody rings; whether it was so."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        rung = bool(poll.poll(max(0.0, seconds * 1000)))
        self.clear()
        return rung

    def clear(self) -> None:
        """Forget who rang until now."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MANY):
                self._socket.recv(_MANY)

    def close(self) -> None:
        """Stop listening."""
        self._ringer.close()
        self._socket.close()


class BellPush:
    """A rank's end, or another thread's."""

    def __init__(self, engine: EngineId) -> None:
        self._address = _address(engine)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def ring(self) -> None:
        """Ring; nothing when nobody listens (another machine), or enough is in the queue already."""
        with contextlib.suppress(OSError):
            self._socket.sendto(_RING, self._address)

    def close(self) -> None:
        """Don't ring again."""
        self._socket.close()
