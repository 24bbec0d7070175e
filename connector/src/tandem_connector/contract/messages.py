# SPDX-License-Identifier: Apache-2.0
"""What two engines say to each other: msgpack, each message in an envelope that names both incarnations.

`decode` is the only way in. It accepts nothing whose size, count, index or number is out of bounds, so that what
follows may rely on the shapes; whether the numbers make sense (block ids inside a pool, ids that are known) is
checked where that is known.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from tandem_connector.contract.types import BlockHash, EngineId, OfferId, QueryId, WantId

VERSION: Final = 1
"""Version of these messages. Engines of different versions refuse each other at `Hello`."""
MAX_BYTES: Final = 4 << 20
"""Longest message that is read at all."""
MAX_BLOCKS: Final = 65_536
"""Most blocks that one message may name: a million tokens in blocks of 16."""
MAX_WANTS_IN_PING: Final = 1_024
"""Most want ids in each list of a `Ping`."""
MAX_DERIVED: Final = 256
"""Most blocks of an offer that says what their names are derived from."""
MAX_TOKENS: Final = 1 << 18
"""Most tokens in such an offer. With `MAX_DERIVED` and `MAX_KEYS` it keeps the message below `MAX_BYTES`."""
MAX_KEYS: Final = 8_192
"""Most bytes of what else one block's name is derived from."""
MAX_TTL: Final = 3_600.0
"""Longest time to live of a want, in seconds."""

_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
_Text: TypeAlias = Annotated[str, Meta(max_length=1_024)]
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 62))]
_Engine: TypeAlias = Annotated[EngineId, Meta(min_length=1, max_length=256)]
_Want: TypeAlias = Annotated[WantId, Meta(ge=0, le=(1 << 62))]
_Wants: TypeAlias = Annotated[tuple[_Want, ...], Meta(max_length=MAX_WANTS_IN_PING)]
_Offer: TypeAlias = Annotated[OfferId, Meta(ge=0, le=(1 << 62))]
_Query: TypeAlias = Annotated[QueryId, Meta(ge=0, le=(1 << 62))]
_Hash: TypeAlias = Annotated[BlockHash, Meta(min_length=8, max_length=64)]
_Hashes: TypeAlias = Annotated[tuple[_Hash, ...], Meta(min_length=1, max_length=MAX_BLOCKS)]
_Block: TypeAlias = Annotated[int, Meta(ge=0, lt=(1 << 31))]
_Blocks: TypeAlias = Annotated[tuple[_Block, ...], Meta(min_length=1, max_length=MAX_BLOCKS)]
_Index: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_BLOCKS)]
_Indices: TypeAlias = Annotated[tuple[_Index, ...], Meta(min_length=1, max_length=MAX_BLOCKS)]
_Tokens: TypeAlias = Annotated[tuple[Annotated[int, Meta(ge=0, lt=(1 << 32))], ...], Meta(max_length=MAX_TOKENS)]
_Keys: TypeAlias = Annotated[tuple[Annotated[bytes, Meta(max_length=MAX_KEYS)], ...], Meta(max_length=MAX_DERIVED)]
_Pointer: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class MessageError(Exception):
    """Bytes from the network that are no message; the text says what was wrong. Drop the peer that sent them."""


class Purpose(StrEnum):
    """Why blocks are wanted; the direction and cause that metrics are labelled with."""

    FORWARD = "forward"
    """Decode wants what prefill computes, for a request that waits."""
    REVERSE_PUSH = "reverse_push"
    """Prefill takes what decode offered: landing blocks, nobody waits."""
    REVERSE_FETCH = "reverse_fetch"
    """Prefill wants what decode has, for a request that waits."""
    MOVE = "move"
    """A successor takes what a draining engine offered."""


class MissingReason(StrEnum):
    """Why wanted blocks will not come."""

    NOT_CACHED = "not_cached"
    """Not in the cache, and the want doesn't wait."""
    NOBODY = "nobody"
    """No live request will compute it."""
    WRITE_FAILED = "write_failed"
    """It could not be posted."""
    UNCERTAIN = "uncertain"
    """It was posted, and the connection broke: it may still arrive, until the transport's bound has passed."""
    EXPIRED = "expired"
    """The want's time to live ended at the holder."""
    UNKNOWN = "unknown"
    """The holder doesn't know the want (the message was lost), and will refuse it from now on."""
    REFUSED = "refused"
    """The holder serves too many wants of this peer, or an older id than it may accept."""
    UNREACHABLE = "unreachable"
    """The holder heard nothing from the wanter for too long, and stopped."""
    RESET = "reset"
    """The holder's prefix cache was reset."""
    SHUTDOWN = "shutdown"


class MemoryKind(StrEnum):
    """NIXL's kinds of memory that KV caches live in."""

    DRAM = "DRAM"
    VRAM = "VRAM"


class _Wire(msgspec.Struct, frozen=True, array_like=True):
    """Fields are sent by position; a later version may only append."""


class Fingerprint(_Wire, frozen=True, array_like=True):
    """What must be equal on two engines for the name of a block to mean the same bytes."""

    model: _Name
    model_revision: _Text
    dtype: _Name
    kv_cache_dtype: _Name
    kv_layout: _Name
    """Shape, strides and order of a layer's KV tensor, as the worker saw them."""
    groups: _Text
    """The KV cache groups and the layers in each, in a fixed order."""
    block_size: Annotated[int, Meta(ge=1, le=65_536)]
    """Tokens per block."""
    tensor_parallel: Annotated[int, Meta(ge=1, le=4_096)]
    pipeline_parallel: Annotated[int, Meta(ge=1, le=4_096)]
    hash_algorithm: _Name
    hash_seed: _Text
    vllm_version: _Name
    connector_version: _Name

    def differences(self, other: "Fingerprint") -> tuple[str, ...]:
        """`field: own value != other value` of each field that differs, in the order of the fields."""
        return tuple(
            f"{name}: {getattr(self, name)!r} != {getattr(other, name)!r}"
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(other, name)
        )


class RankMemory(_Wire, frozen=True, array_like=True):
    """What a writer needs to know of one rank: NIXL's metadata and where the blocks lie."""

    agent: Annotated[bytes, Meta(min_length=1, max_length=65_536)]
    """NIXL agent metadata, opaque."""
    kind: MemoryKind
    device: Annotated[int, Meta(ge=0, le=65_535)]
    bases: Annotated[tuple[_Pointer, ...], Meta(min_length=1, max_length=4_096)]
    """Address of block 0 in each region (a layer's tensor)."""
    strides: Annotated[tuple[Annotated[int, Meta(ge=1, le=(1 << 40))], ...], Meta(min_length=1, max_length=4_096)]
    """Bytes from one block to the next in each region, all of them the block's."""

    def __post_init__(self) -> None:
        if len(self.bases) != len(self.strides):
            raise ValueError(f"{len(self.bases)} regions but {len(self.strides)} strides")


class Hello(_Wire, frozen=True, array_like=True, tag="hello"):
    """First message on a connection, in both directions."""

    version: Annotated[int, Meta(ge=0, le=65_535)]
    fingerprint: Fingerprint
    blocks: Annotated[int, Meta(ge=1, lt=(1 << 31))]
    """Blocks in the sender's pool: block ids are below it, on all ranks."""
    ranks: Annotated[tuple[RankMemory, ...], Meta(min_length=1, max_length=4_096)]
    """By tensor-parallel rank."""
    answer: bool
    """The sender has not seen the receiver's Hello."""
    publishes: bool = False
    """The sender publishes KV events: offers to it say what the blocks' names are derived from."""

    def __post_init__(self) -> None:
        for rank in self.ranks:
            for base, stride in zip(rank.bases, rank.strides, strict=True):
                if base + stride * self.blocks > 1 << 63:
                    raise ValueError("a region ends beyond the address space")


class Want(_Wire, frozen=True, array_like=True, tag="want"):
    """Write these blocks into these places of mine."""

    want: _Want
    purpose: Purpose
    hashes: _Hashes
    destinations: _Blocks
    """Block ids of the sender's pool, one for each hash, all different."""
    ttl: Annotated[float, Meta(gt=0, le=MAX_TTL)]
    """Seconds from receipt after which nothing more may be written."""
    wait: bool
    """Also what the receiver is about to compute; else only what it has."""
    offer: _Offer | None = None
    """The receiver's offer that this answers."""

    def __post_init__(self) -> None:
        if len(self.hashes) != len(self.destinations):
            raise ValueError(f"{len(self.hashes)} hashes but {len(self.destinations)} destinations")
        if len(set(self.destinations)) != len(self.destinations):
            raise ValueError("two blocks with one destination")


class Missing(_Wire, frozen=True, array_like=True, tag="missing"):
    """These blocks of a want of yours will not come: they are not in flight, and will not be written later.

    But see `MissingReason.UNCERTAIN`.
    """

    want: _Want
    indices: _Indices | None
    """None: all that were not written until now."""
    why: MissingReason


class Derivations(_Wire, frozen=True, array_like=True):
    """What the names of consecutive blocks are hashes of."""

    parent: _Hash | None
    """Name of the block before the first; None at the beginning of a sequence."""
    tokens: _Tokens
    """Of all the blocks, one after the other; each has as many."""
    keys: _Keys
    """Of each block: what else there is (LoRA, multimodal, cache salt) in the engines' own encoding, mostly nothing."""


class Offer(_Wire, frozen=True, array_like=True, tag="offer"):
    """I have these blocks; answer with a Want for what you lack."""

    offer: _Offer
    purpose: Purpose
    position: Annotated[int, Meta(ge=0, lt=(1 << 31))]
    """Index of the first block in its token sequence; the others follow it."""
    hashes: _Hashes
    derivations: Derivations | None = None
    """For a receiver that publishes KV events, if the sender knows."""

    def __post_init__(self) -> None:
        if self.purpose not in {Purpose.REVERSE_PUSH, Purpose.MOVE}:
            raise ValueError(f"nothing is offered for {self.purpose.value}")
        derived = self.derivations
        if derived is not None and (derived.parent is None) != (self.position == 0):
            raise ValueError("a block has no parent if and only if it is the first of its sequence")
        if derived is not None and len(derived.keys) != len(self.hashes):
            raise ValueError(f"{len(self.hashes)} hashes but the keys of {len(derived.keys)}")


class Took(_Wire, frozen=True, array_like=True, tag="took"):
    """Answer to an offer of a move, after the Want if there is one: a draining engine waits for it."""

    offer: _Offer
    left: Annotated[int, Meta(ge=0, le=MAX_BLOCKS)]
    """Blocks of the offer that I don't take now, though I lack them: there is no room, or I end myself."""


class Query(_Wire, frozen=True, array_like=True, tag="query"):
    """How long a prefix of these blocks do you have?"""

    query: _Query
    hashes: _Hashes


class Have(_Wire, frozen=True, array_like=True, tag="have"):
    """Answer to a Query: advice, nothing is kept for the asker."""

    query: _Query
    count: Annotated[int, Meta(ge=0, le=MAX_BLOCKS)]


class Cancel(_Wire, frozen=True, array_like=True, tag="cancel"):
    """I don't wait for this want any more."""

    want: _Want


class CancelAck(_Wire, frozen=True, array_like=True, tag="cancel_ack"):
    """No write for this want is in flight, and none will be posted."""

    want: _Want
    uncertain: bool = False
    """But one broke, as in `MissingReason.UNCERTAIN`."""


class Ping(_Wire, frozen=True, array_like=True, tag="ping"):
    """Are you alive? And: these wants of mine I believe open, or cancelled without your acknowledgement.

    The lists may be partial; a want in neither list means nothing. What is older than `oldest` is over.
    """

    open: _Wants
    cancelling: _Wants
    oldest: _Want
    waiting_tokens: _Number
    """Prompt tokens that wait to be computed by the sender."""


class Pong(_Wire, frozen=True, array_like=True, tag="pong"):
    """I am alive."""

    waiting_tokens: _Number
    """Prompt tokens that wait to be computed by the sender."""


class Gone(_Wire, frozen=True, array_like=True, tag="gone"):
    """The engine that you addressed is not here: another incarnation (the envelope's sender) has its address."""

    engine: _Engine


Message: TypeAlias = Hello | Want | Missing | Offer | Took | Query | Have | Cancel | CancelAck | Ping | Pong | Gone


class Envelope(_Wire, frozen=True, array_like=True):
    """A message and the two incarnations it passes between."""

    sender: _Engine
    target: _Engine
    message: Message


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def encode(envelope: Envelope) -> bytes:
    """The bytes of a message, at most `MAX_BYTES` for a message within the bounds."""
    return _encoder.encode(envelope)


def decode(data: bytes) -> Envelope:
    """The message in `data`.

    Raises:
        MessageError: what was wrong. Nothing else is raised, whatever the bytes.
    """
    if len(data) > MAX_BYTES:
        raise MessageError(f"{len(data)} bytes, more than {MAX_BYTES}")
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise MessageError(str(error) or type(error).__name__) from error
