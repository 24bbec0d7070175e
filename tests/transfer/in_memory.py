# SPDX-License-Identifier: Apache-2.0
"""A transport within one process, whose network the test holds in its hands."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tandem_connector.contract.messages import MemoryKind, RankMemory
from tandem_connector.vllm.memory import Geometry, PeerError, Region, peer_geometry
from tandem_connector.vllm.transport import NotPostedError, PeerUnreachableError, TransferState

BLOCK_BYTES = 4


@dataclass(eq=False)
class Transfer:
    """A posted write: what was read from the source, and where it goes."""

    peer: str
    destinations: tuple[int, ...]
    data: npt.NDArray[np.uint8]
    notification: bytes
    state: TransferState = TransferState.RUNNING
    released: bool = False


@dataclass
class Network:
    """Connects transports by their agents' names. Nothing moves until `deliver`."""

    transports: dict[str, "InMemoryTransport"] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    """What was called, in order, where the order is a contract."""

    def deliver(self) -> None:
        for sender, transport in list(self.transports.items()):
            for transfer in transport.posted:
                target = self.transports.get(transfer.peer)
                if transfer.state is not TransferState.RUNNING:
                    continue
                if target is None:
                    transfer.state = TransferState.BROKEN
                    continue
                target.blocks[:, transfer.destinations] = transfer.data
                target.inbox.append((sender, transfer.notification))
                transfer.state = TransferState.DONE

    def kill(self, name: str) -> None:
        del self.transports[name]


class InMemoryTransport:
    """Memory of `regions` x `blocks` blocks. Implements `Transport[Transfer]`."""

    def __init__(self, network: Network, name: str, blocks: int = 16, regions: int = 2) -> None:
        self.name = name
        self.network = network
        self.blocks: npt.NDArray[np.uint8] = np.zeros((regions, blocks, BLOCK_BYTES), dtype=np.uint8)
        self.posted: list[Transfer] = []
        self.inbox: list[tuple[str, bytes]] = []
        self.peers: dict[str, int] = {}
        self.closed = False
        network.transports[name] = self

    @property
    def geometry(self) -> Geometry:
        regions, blocks, _ = self.blocks.shape
        return Geometry(
            kind=MemoryKind.DRAM,
            device=0,
            blocks=blocks,
            regions=tuple(Region(address=4096 * (1 + region), block_bytes=BLOCK_BYTES) for region in range(regions)),
        )

    def memory(self) -> RankMemory:
        return self.geometry.to_wire(self.name.encode())

    def add_peer(self, name: str, memory: RankMemory, blocks: int) -> None:
        assert name not in self.peers
        peer_geometry(self.geometry, memory, blocks)
        if memory.agent != name.encode():
            raise PeerError(f"the metadata is of agent {memory.agent!r}, not of {name!r}")
        self.peers[name] = blocks

    def drop_peer(self, name: str) -> None:
        assert all(transfer.released for transfer in self.posted if transfer.peer == name)
        self.network.calls.append(f"drop {name}")
        self.peers.pop(name, None)

    def post(self, peer: str, sources: Sequence[int], destinations: Sequence[int], notification: bytes) -> Transfer:
        if peer not in self.peers:
            raise NotPostedError(f"peer {peer} isn't known")
        if max(destinations) >= self.peers[peer]:
            raise NotPostedError("a block outside the peer's memory")
        if peer not in self.network.transports:
            raise PeerUnreachableError("disconnected")
        transfer = Transfer(peer, tuple(destinations), self.blocks[:, list(sources)].copy(), notification)
        self.posted.append(transfer)
        return transfer

    def state(self, transfer: Transfer) -> TransferState:
        assert not transfer.released
        return transfer.state

    def release(self, transfer: Transfer) -> None:
        assert not transfer.released
        self.network.calls.append(f"release to {transfer.peer}")
        transfer.released = True

    def notifications(self) -> list[tuple[str, bytes]]:
        taken, self.inbox = self.inbox, []
        return taken

    def close(self) -> None:
        self.network.calls.append(f"close {self.name}")
        self.closed = True
