# SPDX-License-Identifier: Apache-2.0
"""The address and the ports that the programs listen on."""

import socket
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Self

LOOPBACK = "127.0.0.1"


def free_port(address: str = LOOPBACK) -> int:
    """A port that nobody listens on now."""
    with socket.create_server((address, 0)) as held:
        port: int = held.getsockname()[1]
        return port


@dataclass(frozen=True)
class Endpoints:
    """One address for all programs of a control plane, and a port for each."""

    address: str
    apiserver: int = 6443
    controller_manager: int = 10257
    etcd: int = 2379
    etcd_peers: int = 2380
    kwok: int = 10247
    scheduler: int = 10259

    @property
    def server(self) -> str:
        """The API server's address as it stands in a kubeconfig."""
        return f"https://{self.address}:{self.apiserver}"

    @classmethod
    def free(cls, address: str = LOOPBACK) -> Self:
        """Ports that nobody listens on now, so that several control planes run side by side."""
        names = [name for name in asdict(cls(address)) if name != "address"]
        with ExitStack() as stack:
            # All are held until the last is known, or the kernel might give one port twice.
            sockets = [stack.enter_context(socket.create_server((address, 0))) for _ in names]
            return cls(address, **{name: held.getsockname()[1] for name, held in zip(names, sockets, strict=True)})
