# SPDX-License-Identifier: Apache-2.0
"""One-sided writes by NIXL 1.5.

NIXL's Python calls keep the GIL, also while they copy into sockets. So the writer posts pieces of bounded size, or the
worker's main thread would stand still for a whole prefill's worth of TCP.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tandem_connector.contract.messages import RankMemory
from tandem_connector.vllm.memory import Geometry, PeerError, peer_geometry
from tandem_connector.vllm.transport import NotPostedError, PeerUnreachableError, TransferState, TransportError

_log = logging.getLogger(__name__)
_LOCAL = "NIXL_INIT_AGENT"
_DISCONNECTED = "nixlRemoteDisconnectError"
_STATES = {"DONE": TransferState.DONE, "PROC": TransferState.RUNNING, "ERR": TransferState.BROKEN}
_Array: TypeAlias = npt.NDArray[np.uint64]
_Indices: TypeAlias = npt.NDArray[np.int32]


class _Handle(Protocol):
    """A descriptor list or a transfer; NIXL frees it when it is garbage, or by this call."""

    def release(self) -> None: ...


class _Agent(Protocol):
    """What is used of `nixl._api.nixl_agent`."""

    backends: dict[str, int]

    def register_memory(self, regions: list[tuple[int, int, int, str]], mem_type: str) -> object: ...
    def deregister_memory(self, registered: object) -> None: ...
    def get_agent_metadata(self) -> bytes: ...
    def add_remote_agent(self, metadata: bytes) -> bytes | str: ...
    def remove_remote_agent(self, agent: str) -> None: ...
    def prep_xfer_dlist(self, agent_name: str, xfer_list: _Array, mem_type: str) -> _Handle: ...
    def make_prepped_xfer(
        self,
        operation: str,
        local_xfer_side: _Handle,
        local_indices: _Indices,
        remote_xfer_side: _Handle,
        *,
        remote_indices: _Indices,
        notif_msg: bytes,
    ) -> _Handle: ...
    def transfer(self, handle: _Handle) -> str: ...
    def check_xfer_state(self, handle: _Handle) -> str: ...
    def get_new_notifs(self) -> dict[bytes | str, list[bytes]]: ...


@dataclass(frozen=True, slots=True)
class _Peer:
    descriptors: _Handle
    blocks: int


class NixlTransport:
    """A NIXL agent with the rank's KV memory registered. Implements `Transport[_Handle]`."""

    def __init__(self, agent: _Agent, geometry: Geometry) -> None:
        self._agent = agent
        self._geometry = geometry
        self._peers: dict[str, _Peer] = {}
        self._registered = agent.register_memory(
            [
                (region.address, geometry.blocks * region.block_bytes, geometry.device, "")
                for region in geometry.regions
            ],
            geometry.kind.value,
        )
        self._local = agent.prep_xfer_dlist(_LOCAL, _descriptors(geometry), geometry.kind.value)

    @classmethod
    def open(cls, name: str, geometry: Geometry, backends: Sequence[str] = ("UCX",)) -> Self:
        """Create the agent called `name` and register the memory with the first of `backends` that takes it.

        Raises:
            TransportError: NIXL is not installed, has none of the backends, or can't register the memory.
        """
        try:
            from nixl._api import nixl_agent, nixl_agent_config  # noqa: PLC0415 - exists in engines only
        except ImportError as error:
            raise TransportError(f"NIXL can't be imported ({error}); use an engine image that has nixl 1.5") from error
        try:
            # A progress thread of NIXL's spins a core: pthrDelay is 0 in its Python API.
            agent = cast(
                "_Agent", nixl_agent(name, nixl_agent_config(enable_prog_thread=False, backends=list(backends)))
            )
            if not agent.backends:
                raise TransportError(f"NIXL has none of the backends {', '.join(backends)}")
            return cls(agent, geometry)
        except TransportError:
            raise
        except Exception as error:  # NIXL's exceptions have no base class of their own
            raise TransportError(f"NIXL can't register the KV cache with {', '.join(backends)}: {error!r}") from error

    @property
    def geometry(self) -> Geometry:
        """The memory that is registered."""
        return self._geometry

    @property
    def backends(self) -> tuple[str, ...]:
        """NIXL's backends of which the agent has one."""
        return tuple(self._agent.backends)

    def memory(self) -> RankMemory:
        """What peers must be told to write here."""
        return self._geometry.to_wire(self._agent.get_agent_metadata())

    def add_peer(self, name: str, memory: RankMemory, blocks: int) -> None:
        """See `Transport.add_peer`."""
        geometry = peer_geometry(self._geometry, memory, blocks)
        try:
            told = _text(self._agent.add_remote_agent(memory.agent))
        except Exception as error:
            raise PeerError(f"NIXL refuses the peer's metadata: {error!r}") from error
        if told != name:
            self._remove(told)
            raise PeerError(f"the metadata is of agent {told!r}, not of {name!r}")
        try:
            descriptors = self._agent.prep_xfer_dlist(name, _descriptors(geometry), geometry.kind.value)
        except Exception as error:
            self._remove(name)
            raise PeerError(f"the peer's blocks are not in the memory that it registered: {error!r}") from error
        self._peers[name] = _Peer(descriptors, blocks)

    def drop_peer(self, name: str) -> None:
        """See `Transport.drop_peer`."""
        if (peer := self._peers.pop(name, None)) is not None:
            _release(peer.descriptors)
            self._remove(name)

    def post(self, peer: str, sources: Sequence[int], destinations: Sequence[int], notification: bytes) -> _Handle:
        """See `Transport.post`."""
        if (known := self._peers.get(peer)) is None:
            raise NotPostedError(f"peer {peer} isn't known")
        regions = len(self._geometry.regions)
        ours = _indices(sources, self._geometry.blocks, regions)
        theirs = _indices(destinations, known.blocks, regions)
        try:
            handle = self._agent.make_prepped_xfer(
                "WRITE", self._local, ours, known.descriptors, remote_indices=theirs, notif_msg=notification
            )
        except Exception as error:
            if type(error).__name__ == _DISCONNECTED:
                raise PeerUnreachableError(repr(error)) from error
            raise NotPostedError(f"NIXL refuses the transfer: {error!r}") from error
        try:
            status = self._agent.transfer(handle)
        except Exception as error:
            _release(handle)
            raise PeerUnreachableError(repr(error)) from error
        if status == "ERR":
            _release(handle)
            raise PeerUnreachableError("NIXL couldn't post the transfer")
        return handle

    def state(self, transfer: _Handle) -> TransferState:
        """See `Transport.state`."""
        try:
            status = self._agent.check_xfer_state(transfer)
        except Exception as error:
            _log.debug("transfer_broken error=%r", error)
            return TransferState.BROKEN
        return _STATES[status]

    def release(self, transfer: _Handle) -> None:
        """See `Transport.release`."""
        _release(transfer)

    def notifications(self) -> list[tuple[str, bytes]]:
        """See `Transport.notifications`."""
        return [(_text(name), each) for name, all_of_it in self._agent.get_new_notifs().items() for each in all_of_it]

    def close(self) -> None:
        """See `Transport.close`."""
        for name in list(self._peers):
            self.drop_peer(name)
        _release(self._local)
        try:
            self._agent.deregister_memory(self._registered)
        except Exception as error:
            _log.warning("deregister_failed error=%r", error)

    def _remove(self, name: str) -> None:
        try:
            self._agent.remove_remote_agent(name)
        except Exception as error:
            _log.warning("remove_agent_failed agent=%s error=%r", name, error)


def _descriptors(geometry: Geometry) -> _Array:
    """One row for each region: address, length of a block, device, distance of blocks, blocks.

    NIXL expands it, so a peer costs a row per region, not one per block. Descriptor `region * blocks + block` is a block.
    """
    rows = [
        (region.address, region.block_bytes, geometry.device, region.block_bytes, geometry.blocks)
        for region in geometry.regions
    ]
    return np.array(rows, dtype=np.uint64)


def _indices(blocks: Sequence[int], count: int, regions: int) -> _Indices:
    """Descriptors of `blocks` in all regions, region by region, so that neighbours stay neighbours.

    Raises:
        NotPostedError: a block isn't below `count`; its descriptor would be another region's block.
    """
    chosen = np.asarray(blocks, dtype=np.int64)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= count:
        raise NotPostedError(f"blocks {chosen.min(initial=0)} to {chosen.max(initial=0)} of a memory of {count}")
    return (np.arange(regions, dtype=np.int64)[:, None] * count + chosen).ravel().astype(np.int32)


def _release(handle: _Handle) -> None:
    try:
        handle.release()
    except Exception as error:
        _log.warning("release_failed error=%r", error)


def _text(name: bytes | str) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name
