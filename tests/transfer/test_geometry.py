# SPDX-License-Identifier: Apache-2.0
"""Where blocks lie in KV tensors, which layouts are refused, and which peers."""

import pytest

from tandem_connector.contract.messages import MemoryKind, RankMemory
from tandem_connector.vllm.memory import (
    MAX_DESCRIPTORS,
    Geometry,
    LayoutError,
    PeerError,
    Region,
    geometry_of,
    peer_geometry,
)
from tests.transfer.builders import ADevice, ATensor

KV = (100, 8, 32, 256)  # blocks, KV heads, tokens, K and V of a head


def a_geometry(blocks: int = 100, block_bytes: tuple[int, ...] = (64, 64)) -> Geometry:
    regions = tuple(Region(4096 * (number + 1), length) for number, length in enumerate(block_bytes))
    return Geometry(kind=MemoryKind.DRAM, device=0, blocks=blocks, regions=regions)


def test_a_layer_is_a_region_and_a_block_its_first_dimension() -> None:
    geometry = geometry_of({"layers.0": ATensor(KV, 4096), "layers.1": ATensor(KV, 1 << 30)}, blocks=100)

    assert geometry.regions == (Region(4096, 8 * 32 * 256 * 2), Region(1 << 30, 8 * 32 * 256 * 2))
    assert (geometry.kind, geometry.device, geometry.blocks) == (MemoryKind.DRAM, 0, 100)
    assert geometry.block_bytes == 2 * 8 * 32 * 256 * 2


def test_layers_are_numbered_by_their_names_whatever_order_they_come_in() -> None:
    names = ["layers.10", "layers.2", "layers.1"]
    addresses = {"layers.1": 4096, "layers.2": 8192, "layers.10": 12288}

    geometry = geometry_of({name: ATensor((2, 4), addresses[name]) for name in names}, blocks=2)

    assert [region.address for region in geometry.regions] == [4096, 8192, 12288]


def test_mla_has_one_vector_per_token_and_no_heads() -> None:
    geometry = geometry_of({"layers.0": ATensor((50, 64, 576))}, blocks=50)

    assert geometry.regions == (Region(1 << 20, 64 * 576 * 2),)


def test_layers_with_blocks_of_different_lengths_are_regions_of_their_own_length() -> None:
    geometry = geometry_of(
        {"layers.0.attn": ATensor((50, 64, 576), 4096), "layers.0.indexer": ATensor((50, 64, 132), 1 << 30, None, 1)},
        50,
    )

    assert [region.block_bytes for region in geometry.regions] == [64 * 576 * 2, 64 * 132]


def test_a_gpus_memory_is_vram_of_its_device() -> None:
    geometry = geometry_of({"layers.0": ATensor(KV, device=ADevice("cuda", 3))}, blocks=100)

    assert (geometry.kind, geometry.device) == (MemoryKind.VRAM, 3)


def test_inner_dimensions_may_be_stored_in_another_order_and_the_layout_says_so() -> None:
    heads_first = ATensor(KV)
    tokens_first = ATensor(KV, strides=(8 * 32 * 256, 256, 8 * 256, 1))

    one, other = (geometry_of({"layers.0": tensor}, blocks=100) for tensor in (heads_first, tokens_first))

    assert one.regions == other.regions
    assert one.layout == "1*1x2B[8x32x256@8192,256,1]"
    assert other.layout == "1*1x2B[8x32x256@256,2048,1]"


def test_kernel_blocks_that_are_parts_of_a_block_lie_together() -> None:
    geometry = geometry_of({"layers.0": ATensor((200, 8, 16, 256))}, blocks=100)

    assert geometry.regions == (Region(1 << 20, 2 * 8 * 16 * 256 * 2),)


def test_layers_that_share_one_cache_count_once() -> None:
    geometry = geometry_of({"layers.0": ATensor(KV, 4096), "layers.1": ATensor(KV, 4096)}, blocks=100)

    assert geometry.regions == (Region(4096, 8 * 32 * 256 * 2),)


def test_layers_that_interleave_block_by_block_are_one_region_of_longer_blocks() -> None:
    strides = (3 * 64, 1)
    tensors = {f"layers.{number}": ATensor((10, 64), 4096 + 128 * number, strides) for number in range(3)}

    geometry = geometry_of(tensors, blocks=10)

    assert geometry.regions == (Region(4096, 3 * 128),)


def test_the_order_of_interleaved_layers_is_part_of_the_layout() -> None:
    def layout(*names: str) -> str:
        tensors = {name: ATensor((10, 64), 4096 + 128 * place, (128, 1)) for place, name in enumerate(names)}
        return geometry_of(tensors, blocks=10).layout

    assert layout("layers.0", "layers.1") != layout("layers.1", "layers.0")


def test_a_long_layout_is_cut_and_still_tells_layouts_apart() -> None:
    def layout(last: int) -> str:
        tensors = {f"layers.{number}": ATensor((10, 8 + number % 7), 4096 * number) for number in range(40)}
        return geometry_of({**tensors, "layers.40": ATensor((10, last), 1 << 30)}, blocks=10).layout

    assert len(layout(8)) <= 200
    assert layout(8) != layout(9)


@pytest.mark.parametrize(
    ("tensor", "what"),
    [
        (ATensor((2, 100, 32, 8, 128)), "the first of the dimensions isn't the 100 blocks"),
        (ATensor((100, 8, 32, 256), strides=(32 * 256, 100 * 32 * 256, 256, 1)), "isn't one contiguous piece"),
        (ATensor((100, 64), strides=(128, 2)), "isn't one contiguous piece"),
        (ATensor((200, 64), strides=(128, 1)), "isn't one contiguous piece"),
        (ATensor((100, 64), strides=(0, 1)), "isn't one contiguous piece"),
        (ATensor((100, 64), strides=(192, 1)), "something other than KV of this cache between them"),
        (ATensor(()), "the first of the dimensions"),
    ],
)
def test_a_block_in_several_pieces_is_refused_by_the_layers_name_and_with_the_alternative(
    tensor: ATensor, what: str
) -> None:
    with pytest.raises(LayoutError, match=what) as refused:
        geometry_of({"model.layers.0.self_attn": tensor}, blocks=100)

    assert "model.layers.0.self_attn" in str(refused.value)
    assert "spec.transfer.protocol: NixlPull" in str(refused.value)


def test_interleaved_layers_with_a_gap_are_refused() -> None:
    tensors = {f"layers.{number}": ATensor((10, 64), 4096 + 256 * number, (256, 1)) for number in range(2)}

    with pytest.raises(LayoutError, match=r"layers\.0: its blocks lie 512 bytes apart"):
        geometry_of(tensors, blocks=10)


def test_a_cache_on_two_devices_is_refused() -> None:
    tensors = {"layers.0": ATensor(KV, device=ADevice("cuda", 0)), "layers.1": ATensor(KV, 4096)}

    with pytest.raises(LayoutError, match=r"several devices \(cpu:0, cuda:0\)"):
        geometry_of(tensors, blocks=100)


def test_more_blocks_than_a_transfer_list_can_number_are_refused() -> None:
    blocks = MAX_DESCRIPTORS // 2 + 1
    tensors = {f"layers.{number}": ATensor((blocks, 1), number << 40) for number in range(2)}

    with pytest.raises(LayoutError, match="too many to address"):
        geometry_of(tensors, blocks=blocks)


def test_an_engine_without_kv_cache_is_refused() -> None:
    with pytest.raises(LayoutError, match="no KV cache"):
        geometry_of({}, blocks=100)


def test_what_a_peer_is_told_gives_it_the_same_regions() -> None:
    own = a_geometry()

    seen = peer_geometry(own, own.to_wire(b"agent"), blocks=70)

    assert seen == Geometry(kind=MemoryKind.DRAM, device=0, blocks=70, regions=own.regions)


@pytest.mark.parametrize(
    ("peer", "blocks", "what"),
    [
        (a_geometry(block_bytes=(64,)), 100, "has 1 regions of KV memory, this engine 2"),
        (a_geometry(block_bytes=(64, 32)), 100, "region 1: the peer's blocks have 32 bytes, this engine's 64"),
        (a_geometry(), 0, "0 blocks in 2 regions"),
        (a_geometry(), MAX_DESCRIPTORS, "can't be addressed"),
    ],
)
def test_a_peer_whose_blocks_are_not_like_ours_is_refused(peer: Geometry, blocks: int, what: str) -> None:
    with pytest.raises(PeerError, match=what):
        peer_geometry(a_geometry(), peer.to_wire(b"agent"), blocks)


def test_a_peers_region_that_ends_beyond_the_address_space_is_refused() -> None:
    far = RankMemory(agent=b"agent", kind=MemoryKind.DRAM, device=0, bases=(4096, (1 << 63) - 1), strides=(64, 64))

    with pytest.raises(PeerError, match="beyond the address space"):
        peer_geometry(a_geometry(), far, blocks=MAX_DESCRIPTORS // 2)
