# SPDX-License-Identifier: Apache-2.0
"""The peer table: what the operator tells one engine about the engines that it may speak with.

These are engines of the other pool, and the engine's heir and those whose heir it is, which are of the same pool: each is in the
other's table. Nobody asks for a prefill from an engine of its own pool, or offers it what a turn computed.

An engine that leaves the table and lives has *parted*: what was begun with it is brought to its end, nothing new is begun, and it may
be listed again. That its pod is gone is said by name (`PeerTable.gone`), because blocks that its process might still have written into
are used again then.

The table is written as the annotation `tandem.dev/peers` on the engine's pod and read from a downward-API file, so an
engine needs no access to the Kubernetes API. A table is whole (never a difference) and fenced by its generation.

The data-parallel ranks of a pod are engines of their own, and all of them read the pod's table. In a table they are one entry, with
their number: what is said of one of them (its state, its end) is said of all, since they share a server.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic.alias_generators import to_camel

from tandem_connector.contract.types import EngineId, EngineState, Generation, Role, engine_of_rank, pod_of

MAX_RANKS: Final = 255
"""Most data-parallel ranks of a pod: as many engines as one may address."""
TABLE_VERSION = 1
"""Version of the table's form. An engine refuses a table of another version and keeps the one it has."""
MAX_GONE: Final = 255
"""Most pods that a table names as gone: as many as an engine may have peers at one time."""


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


class Address(_Frozen):
    """Where an engine listens."""

    host: Annotated[str, Field(min_length=1, max_length=253)]
    """The pod's IP address (v4 or v6, without brackets)."""
    http_port: Annotated[int, Field(ge=1, le=65535)]
    side_channel_port: Annotated[int, Field(ge=1, le=65535)]
    """Of its first data-parallel rank; another's is as many above."""


class Parallelism(_Frozen):
    """How many ranks the engine's model is split over, and how often it is there."""

    tensor: Annotated[int, Field(ge=1)]
    data: Annotated[int, Field(ge=1, le=MAX_RANKS)] = 1
    """Data-parallel ranks, each an engine of its own. Not written when it is 1: tables of such engines are as they were before."""

    @model_serializer(mode="wrap")
    def _without_the_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        if self.data == 1:
            del fields["data"]
        return fields


class Network(_Frozen):
    """Where the engine's node is, as far as its labels tell."""

    zone: str | None = None
    """`topology.kubernetes.io/zone`."""
    layers: tuple[str, ...] = ()
    """`topology.k8s.aws/network-node-layer-*`, from the top of the network down to the node's own switch."""


class Peer(_Frozen):
    """The engines of one pod as another sees them: one, or its data-parallel ranks."""

    engine: EngineId
    """`<pod UID>-<start>`: a restarted process is another engine. Of data-parallel ranks it is what their names begin with."""
    pod: str
    role: Role
    state: EngineState
    address: Address
    parallelism: Parallelism
    revision: str
    """Hash of what must be equal on both sides (engine image, arguments, model). Engines of different revisions are never peers."""
    network: Network = Network()

    def engines(self) -> tuple[Self, ...]:
        """Each of the pod's engines by its own name and at its own port."""
        if self.parallelism.data == 1:
            return (self,)
        return tuple(
            self.model_copy(
                update={
                    "engine": engine_of_rank(self.engine, rank),
                    "address": self.address.model_copy(
                        update={"side_channel_port": self.address.side_channel_port + rank}
                    ),
                }
            )
            for rank in range(self.parallelism.data)
        )


class Drain(_Frozen):
    """What an engine that is to end has to do before: answer what it has, and hand over what it holds."""

    successor: EngineId | None = None
    """A peer of the same role, that is to have what this engine's prefix cache holds. None: nobody is.

    Where both pods have data-parallel ranks, each rank's successor is the one of its own number, counted on from the first again."""


class PeerTable(_Frozen):
    """All that one engine is told about its peers, and about itself.

    Raises:
        pydantic.ValidationError: on `model_validate_json` of anything that is not a table of this version, or when the
            successor is none of the peers.
    """

    version: Annotated[int, Field(ge=TABLE_VERSION, le=TABLE_VERSION)] = TABLE_VERSION
    generation: Generation
    digest: str
    """`PeerTable.digest_of` of all the rest: two tables with the same digest say the same."""
    peers: tuple[Peer, ...]
    drain: Drain | None = None
    """The engine whose table this is drains: it takes no new work from peers, and ends when it has nothing left to do."""
    gone: Annotated[tuple[str, ...], Field(max_length=MAX_GONE)] = ()
    """UIDs of pods whose engines were peers, and that exist no more: their processes have ended for certain."""
    heir: EngineId | None = None
    """A peer of the same role, that is to have what this engine's prefix cache holds when its container is told to end.

    It is named ahead: a kubelet shows a pod that is being deleted no newer table."""

    @model_validator(mode="after")
    def _lists_no_pod_as_gone_too(self) -> Self:
        both = {pod_of(peer.engine) for peer in self.peers} & set(self.gone)
        if both:
            raise ValueError(f"the pod {min(both)} is gone, and an engine of it is among the peers")
        return self

    @model_validator(mode="after")
    def _knows_the_successor(self) -> Self:
        successor = self.drain.successor if self.drain is not None else None
        for name, engine in (("successor", successor), ("heir", self.heir)):
            if engine is not None and all(peer.engine != engine for peer in self.peers):
                raise ValueError(f"the {name} {engine} is none of the peers")
        return self

    @classmethod
    def of(
        cls,
        generation: Generation,
        peers: tuple[Peer, ...],
        drain: Drain | None = None,
        gone: Iterable[str] = (),
        heir: EngineId | None = None,
    ) -> Self:
        """A table of these peers, in a fixed order, with its digest; of `gone` the last `MAX_GONE`, in the order given."""
        ordered, ended = tuple(sorted(peers, key=lambda peer: peer.engine)), tuple(gone)[-MAX_GONE:]
        digest = cls.digest_of(ordered, drain, ended, heir)
        return cls(generation=generation, digest=digest, peers=ordered, drain=drain, gone=ended, heir=heir)

    @staticmethod
    def digest_of(
        peers: tuple[Peer, ...],
        drain: Drain | None = None,
        gone: tuple[str, ...] = (),
        heir: EngineId | None = None,
    ) -> str:
        """16 hexadecimal digits of SHA-256 over the peers in the order of their engine ids and all else that a table says."""
        said = [*sorted(peers, key=lambda peer: peer.engine), *([drain] if drain is not None else [])]
        content = "\n".join([*(each.model_dump_json(by_alias=True) for each in said), *gone, f"heir={heir}"])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def to_annotation(self) -> str:
        """The table as compact JSON, the same bytes for the same table."""
        return self.model_dump_json(by_alias=True)
