# SPDX-License-Identifier: Apache-2.0
"""The peer table: what the operator tells one engine about the engines of the other pool.

It is written as the annotation `tandem.dev/peers` on the engine's pod and read from a downward-API file, so an
engine needs no access to the Kubernetes API. A table is whole (never a difference) and fenced by its generation.
"""

import hashlib
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tandem_connector.contract.types import EngineId, EngineState, Generation, Role

TABLE_VERSION = 1
"""Version of the table's form. An engine refuses a table of another version and keeps the one it has."""


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


class Parallelism(_Frozen):
    """How many ranks the engine's model is split over."""

    tensor: Annotated[int, Field(ge=1)]


class Network(_Frozen):
    """Where the engine's node is, as far as its labels tell."""

    zone: str | None = None
    """`topology.kubernetes.io/zone`."""
    layers: tuple[str, ...] = ()
    """`topology.k8s.aws/network-node-layer-*`, from the top of the network down to the node's own switch."""


class Peer(_Frozen):
    """One engine as another sees it."""

    engine: EngineId
    """`<pod UID>-<start>`: a restarted process is another engine."""
    pod: str
    role: Role
    state: EngineState
    address: Address
    parallelism: Parallelism
    revision: str
    """Hash of what must be equal on both sides (engine image, arguments, model). Engines of different revisions are never peers."""
    network: Network = Network()


class PeerTable(_Frozen):
    """All that one engine is told about its peers.

    Raises:
        pydantic.ValidationError: on `model_validate_json` of anything that is not a table of this version.
    """

    version: Annotated[int, Field(ge=TABLE_VERSION, le=TABLE_VERSION)] = TABLE_VERSION
    generation: Generation
    digest: str
    """`PeerTable.digest_of` of the peers: two tables with the same digest say the same."""
    peers: tuple[Peer, ...]

    @classmethod
    def of(cls, generation: Generation, peers: tuple[Peer, ...]) -> Self:
        """A table of these peers, in a fixed order, with its digest."""
        ordered = tuple(sorted(peers, key=lambda peer: peer.engine))
        return cls(generation=generation, digest=cls.digest_of(ordered), peers=ordered)

    @staticmethod
    def digest_of(peers: tuple[Peer, ...]) -> str:
        """16 hexadecimal digits of SHA-256 over the peers in the order of their engine ids."""
        ordered = sorted(peers, key=lambda peer: peer.engine)
        content = "\n".join(peer.model_dump_json(by_alias=True) for peer in ordered)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def to_annotation(self) -> str:
        """The table as compact JSON, the same bytes for the same table."""
        return self.model_dump_json(by_alias=True)
