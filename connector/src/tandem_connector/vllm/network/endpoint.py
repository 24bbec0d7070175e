# SPDX-License-Identifier: Apache-2.0
"""Where an engine listens for its peers' messages."""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from tandem_connector.contract.peers import Peer


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An IP address and a port. Port 0, to listen on, takes a free one.

    Raises:
        ValueError: the host is a name: what it means could change after it was checked.
    """

    host: str
    port: int

    def __post_init__(self) -> None:
        ip_address(self.host)

    @classmethod
    def of(cls, peer: Peer) -> "Endpoint":
        """Where the peer table says that the peer listens.

        Raises:
            ValueError: the table has a name in place of an IP address.
        """
        return cls(peer.address.host, peer.address.side_channel_port)

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can be at the other end."""
        return ip_address(self.host).is_loopback

    @property
    def is_ipv6(self) -> bool:
        """Whether it is an address of IP version 6."""
        return isinstance(ip_address(self.host), IPv6Address)

    @property
    def url(self) -> str:
        """In ZeroMQ's form."""
        host = f"[{self.host}]" if self.is_ipv6 else self.host
        return f"tcp://{host}:{self.port or '*'}"

    def __str__(self) -> str:
        return self.url.removeprefix("tcp://")
