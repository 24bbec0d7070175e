# SPDX-License-Identifier: Apache-2.0
"""Ports of this machine that engines are to listen on."""

import random
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Self

# Below those that Linux gives to whoever connects, and that Kubernetes gives to node ports: an engine takes its port only
# when it has loaded everything, a minute after it was chosen.
_PORTS = range(10_000, 30_000)


@dataclass(frozen=True)
class Ports:
    """Where an engine listens on 127.0.0.1: for HTTP, and for the exchange."""

    http: int
    side: int
    """Of the first data-parallel rank; the others follow."""

    @classmethod
    def free(cls, ranks: int = 1) -> Self:
        """Ports that nobody uses now."""
        return cls(free_port(), free_port(ranks))


def free_port(count: int = 1) -> int:
    """A port that nobody uses now, and that nobody is given by chance; of several that follow each other, the first."""
    while True:
        port = random.choice(_PORTS)
        with ExitStack() as probes, suppress(OSError):
            for each in range(port, port + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", each))
            return port
