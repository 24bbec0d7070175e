# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of a rank lie in its memory, and whether a peer's lie alike.

A write names blocks; NIXL wants addresses. Block `b` of region `r` is the piece of `block_bytes` at
`address + b * block_bytes`, and a region is one layer's KV tensor. Layers that share one allocation block by block
(all layers of block 0, then all layers of block 1) are one region together: their blocks are longer, and fewer.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Protocol

from tandem_connector.contract.messages import MemoryKind, RankMemory

MAX_DESCRIPTORS = (1 << 31) - 1
"""Blocks times regions of one rank: NIXL takes descriptor indices as 32-bit numbers."""
_ALTERNATIVE = "set `spec.transfer.protocol: NixlPull` on the resource"
_MAX_LAYOUT = 200


class LayoutError(Exception):
    """The KV cache of this engine can't be exchanged block by block; the text names the layer and the alternative."""


class PeerError(Exception):
    """What a peer told of its memory is malformed, or its blocks are not like ours; the text says what differs."""


class Device(Protocol):
    """What is used of `torch.device`."""

    @property
    def type(self) -> str:
        """`cpu`, `cuda`, ..."""
        ...

    @property
    def index(self) -> int | None:
        """Number of the device; None for the CPU, and for the current one."""
        ...


class Tensor(Protocol):
    """What is used of `torch.Tensor`."""

    @property
    def shape(self) -> Sequence[int]:
        """Elements in each dimension."""
        ...

    @property
    def device(self) -> Device:
        """Where it lies."""
        ...

    def stride(self) -> Sequence[int]:
        """Elements from one index to the next, in each dimension."""
        ...

    def element_size(self) -> int:
        """Bytes of an element."""
        ...

    def data_ptr(self) -> int:
        """Address of its first element."""
        ...


@dataclass(frozen=True, slots=True)
class Region:
    """Blocks one after another, without a gap."""

    address: int
    block_bytes: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """All KV memory of one rank."""

    kind: MemoryKind
    device: int
    blocks: int
    """Blocks in each region."""
    regions: tuple[Region, ...]
    layout: str = ""
    """Order of the elements inside a block, for the fingerprint: equal on both sides, or the bytes mean something else.
    Empty for a peer's, which its fingerprint tells."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one block in all regions together: what one block costs to write."""
        return sum(region.block_bytes for region in self.regions)

    def to_wire(self, agent: bytes) -> RankMemory:
        """What a peer must know to write here. `agent`: NIXL's metadata of the agent that registered the regions."""
        return RankMemory(
            agent=agent,
            kind=self.kind,
            device=self.device,
            bases=tuple(region.address for region in self.regions),
            strides=tuple(region.block_bytes for region in self.regions),
        )


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's tensor, measured in bytes."""

    name: str
    address: int
    piece: int
    stride: int
    form: str


def geometry_of(tensors: Mapping[str, Tensor], blocks: int) -> Geometry:
    """Geometry of the KV cache of this rank.

    Args:
        tensors: by layer name, as vLLM registers them; the first dimension counts blocks, or equal parts of blocks
            where the attention kernel's blocks are smaller than the scheduler's. Two names for one tensor (layers
            that share their cache) count once.
        blocks: blocks in the scheduler's pool.

    Raises:
        LayoutError: a block isn't one contiguous piece per layer, the layers lie on several devices, or there are
            too many blocks for one transfer list.
    """
    if not tensors or blocks < 1:
        raise LayoutError("there is no KV cache to exchange")
    unique: dict[tuple[int, str], _Layer] = {}
    for layer in (_measured(name, tensors[name], blocks) for name in _in_order(tensors)):
        unique.setdefault((layer.address, layer.form), layer)
    layers = tuple(unique.values())
    devices = {(tensor.device.type, tensor.device.index or 0) for tensor in tensors.values()}
    if len(devices) > 1:
        shown = ", ".join(sorted(f"{kind}:{index}" for kind, index in devices))
        raise LayoutError(f"the KV cache lies on several devices ({shown}); {_ALTERNATIVE}")
    ((device_type, device),) = devices
    regions = _regions(layers)
    if blocks * len(regions) > MAX_DESCRIPTORS:
        raise LayoutError(f"{blocks} blocks in {len(regions)} regions are too many to address; {_ALTERNATIVE}")
    return Geometry(
        kind=MemoryKind.DRAM if device_type == "cpu" else MemoryKind.VRAM,
        device=device,
        blocks=blocks,
        regions=tuple(Region(members[0].address, members[0].stride) for members in regions),
        layout=_layout(layers, regions),
    )


def peer_geometry(own: Geometry, peer: RankMemory, blocks: int) -> Geometry:
    """Geometry of a peer's rank, whose pool has `blocks` blocks, checked against our own.

    Raises:
        PeerError: it has another number of regions, other lengths of blocks, or too many blocks to address.
    """
    if len(peer.bases) != len(peer.strides):
        raise PeerError(f"{len(peer.bases)} regions but {len(peer.strides)} block lengths")
    if len(peer.bases) != len(own.regions):
        raise PeerError(f"the peer has {len(peer.bases)} regions of KV memory, this engine {len(own.regions)}")
    for number, (theirs, ours) in enumerate(zip(peer.strides, own.regions, strict=True)):
        if theirs != ours.block_bytes:
            raise PeerError(f"region {number}: the peer's blocks have {theirs} bytes, this engine's {ours.block_bytes}")
    if not 1 <= blocks <= MAX_DESCRIPTORS // len(peer.bases):
        raise PeerError(f"{blocks} blocks in {len(peer.bases)} regions can't be addressed")
    regions = tuple(Region(base, stride) for base, stride in zip(peer.bases, peer.strides, strict=True))
    if any(region.address + blocks * region.block_bytes > 1 << 63 for region in regions):
        raise PeerError("a region ends beyond the address space")
    return Geometry(kind=peer.kind, device=peer.device, blocks=blocks, regions=regions)


def _in_order(names: Iterable[str]) -> list[str]:
    """Layer 2 before layer 10: two engines must number their regions alike, whatever order vLLM made them in."""
    return sorted(
        names,
        key=lambda name: [
            (part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)
        ],
    )


def _measured(name: str, tensor: Tensor, blocks: int) -> _Layer:
    shape, strides, size = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    shown = f"shape {shape}, strides {strides}"
    if not shape or shape[0] < 1 or shape[0] % blocks:
        raise LayoutError(
            f"layer {name}: the first of the dimensions isn't the {blocks} blocks ({shown}); {_ALTERNATIVE}"
        )
    parts = shape[0] // blocks
    elements = 1
    for stride, count in sorted(
        (stride, count) for stride, count in zip(strides[1:], shape[1:], strict=True) if count != 1
    ):
        if stride != elements:
            raise LayoutError(f"layer {name}: a block isn't one contiguous piece of memory ({shown}); {_ALTERNATIVE}")
        elements *= count
    if not elements or strides[0] < elements or (parts > 1 and strides[0] != elements):
        raise LayoutError(f"layer {name}: a block isn't one contiguous piece of memory ({shown}); {_ALTERNATIVE}")
    inner = "x".join(map(str, shape[1:])) + "@" + ",".join(map(str, strides[1:]))
    return _Layer(
        name=name,
        address=tensor.data_ptr(),
        piece=parts * elements * size,
        stride=parts * strides[0] * size,
        form=f"{parts}x{size}B[{inner}]",
    )


def _regions(layers: Sequence[_Layer]) -> list[tuple[_Layer, ...]]:
    """The layers of each region, by address: one layer alone, or those whose blocks interleave without a gap.

    Regions are in the order of their first layer, so that two engines number them alike wherever the memory lies.
    """
    alone = [(layer,) for layer in layers if layer.piece == layer.stride]
    interleaved = [layer for layer in layers if layer.piece != layer.stride]
    rows: list[tuple[_Layer, ...]] = []
    row: list[_Layer] = []
    for layer in sorted(interleaved, key=lambda layer: layer.address):
        row.append(layer)
        if sum(each.piece for each in row) == layer.stride:
            rows.append(tuple(row))
            row = []
    rows += [tuple(row)] if row else []
    for members in rows:
        _check_row(members)
    number = {layer.name: place for place, layer in enumerate(layers)}
    return sorted(alone + rows, key=lambda members: min(number[layer.name] for layer in members))


def _check_row(members: Sequence[_Layer]) -> None:
    end = members[0].address
    for layer in members:
        if layer.address != end or layer.stride != members[0].stride:
            break
        end += layer.piece
    if end - members[0].address != members[0].stride:
        raise LayoutError(
            f"layer {members[0].name}: its blocks lie {members[0].stride} bytes apart with something other than KV of "
            f"this cache between them; {_ALTERNATIVE}"
        )


def _layout(layers: Sequence[_Layer], regions: Sequence[Sequence[_Layer]]) -> str:
    forms = {layer.name: layer.form for layer in layers}
    for number, members in enumerate(regions):
        if len(members) > 1:
            forms |= {layer.name: f"{layer.form}r{number}+{layer.address - members[0].address}" for layer in members}
    text = " ".join(f"{len(list(same))}*{form}" for form, same in groupby(forms.values()))
    if len(text) <= _MAX_LAYOUT:
        return text
    return f"{text[: _MAX_LAYOUT - 20]}#{sha256(text.encode()).hexdigest()[:16]}"
