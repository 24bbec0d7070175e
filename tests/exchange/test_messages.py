# SPDX-License-Identifier: Apache-2.0
"""What crosses the network: everything survives the way, and nothing that is out of bounds gets in."""

import contextlib
import math
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from tandem_connector.contract import messages
from tandem_connector.contract.messages import (
    MAX_BLOCKS,
    MAX_BYTES,
    MAX_DERIVED,
    MAX_KEYS,
    MAX_TOKENS,
    Cancel,
    CancelAck,
    Derivations,
    Envelope,
    Fingerprint,
    Gone,
    Have,
    Hello,
    MemoryKind,
    Message,
    MessageError,
    Missing,
    MissingReason,
    Offer,
    Ping,
    Pong,
    Purpose,
    Query,
    RankMemory,
    Took,
    Want,
    decode,
    encode,
)
from tandem_connector.contract.types import BlockHash, EngineId, OfferId, WantId

text = st.text(min_size=1, max_size=20)
ids = st.integers(0, 1 << 62)
wants = st.integers(0, 1 << 62).map(WantId)
hashes = st.binary(min_size=8, max_size=64).map(BlockHash)
some_hashes = st.lists(hashes, min_size=1, max_size=5).map(tuple)
engines = text.map(EngineId)
fingerprints = st.builds(
    Fingerprint,
    *[text] * 6,
    st.integers(1, 512),
    st.integers(1, 8),
    st.integers(1, 8),
    *[text] * 4,
)
ranks = st.builds(
    lambda agent, kind, device, regions: RankMemory(
        agent, kind, device, tuple(base for base, _ in regions), tuple(stride for _, stride in regions)
    ),
    st.binary(min_size=1, max_size=30),
    st.sampled_from(MemoryKind),
    st.integers(0, 16),
    st.lists(st.tuples(st.integers(0, 1 << 47), st.integers(1, 1 << 20)), min_size=1, max_size=4),
)
hellos = st.builds(
    Hello,
    st.integers(0, 9),
    fingerprints,
    st.integers(1, 1 << 20),
    st.lists(ranks, min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.booleans(),
)


@st.composite
def offer_messages(draw: st.DrawFn) -> Offer:
    names = draw(some_hashes)
    position = draw(st.integers(0, 1 << 20))
    tokens = draw(st.lists(st.integers(0, (1 << 32) - 1), max_size=20).map(tuple))
    keys = draw(st.lists(st.binary(max_size=20), min_size=len(names), max_size=len(names)).map(tuple))
    derived = draw(st.none() | st.just(Derivations(draw(hashes) if position else None, tokens, keys)))
    return Offer(
        draw(ids.map(OfferId)), draw(st.sampled_from([Purpose.REVERSE_PUSH, Purpose.MOVE])), position, names, derived
    )


@st.composite
def want_messages(draw: st.DrawFn) -> Want:
    names = draw(some_hashes)
    places = draw(st.lists(st.integers(0, 1 << 30), min_size=len(names), max_size=len(names), unique=True))
    ttl = draw(st.floats(0.001, 3_600))
    offer = draw(st.none() | ids.map(OfferId))
    return Want(draw(wants), draw(st.sampled_from(Purpose)), names, tuple(places), ttl, draw(st.booleans()), offer)


any_indices = st.lists(st.integers(0, MAX_BLOCKS - 1), min_size=1, max_size=5).map(tuple)
some_wants = st.lists(wants, max_size=4).map(tuple)
all_messages: st.SearchStrategy[Message] = st.one_of(
    hellos,
    want_messages(),
    st.builds(Missing, wants, st.none() | any_indices, st.sampled_from(MissingReason)),
    offer_messages(),
    st.builds(Took, ids, st.integers(0, MAX_BLOCKS)),
    st.builds(Query, ids, some_hashes),
    st.builds(Have, ids, st.integers(0, MAX_BLOCKS)),
    st.builds(Cancel, wants),
    st.builds(CancelAck, wants),
    st.builds(Ping, some_wants, some_wants, wants, ids),
    st.builds(Pong, ids),
    st.builds(Gone, engines),
)
envelopes = st.builds(Envelope, engines, engines, all_messages)


@given(envelopes)
def test_every_message_arrives_as_it_was_sent(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


@given(st.binary(max_size=400))
def test_garbage_is_a_message_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode(b"\xc1" + data)
    with contextlib.suppress(MessageError):
        decode(data)


@given(envelopes, st.data())
def test_a_damaged_message_is_a_message_or_a_message_error(envelope: Envelope, data: st.DataObject) -> None:
    whole = bytearray(encode(envelope))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        try:
            decoded = decode(damaged)
        except MessageError:
            continue
        assert decode(encode(decoded)) == decoded


def test_deep_nesting_is_a_message_error() -> None:
    with pytest.raises(MessageError):
        decode(b"\x91" * 1_000_000)


def test_more_bytes_than_allowed_are_not_even_read() -> None:
    with pytest.raises(MessageError, match=r"^4194305 bytes, more than 4194304$"):
        decode(bytes(MAX_BYTES + 1))


def raw(message: list[Any]) -> bytes:
    return msgspec.msgpack.encode(["a", "b", message])


HASH = b"12345678"
GOOD_WANT = ["want", 1, "forward", [HASH, HASH], [4, 5], 1.5, True, None]


def changed(position: int, value: object) -> list[Any]:
    return [*GOOD_WANT[:position], value, *GOOD_WANT[position + 1 :]]


def test_the_form_of_a_want_on_the_wire_is_fixed() -> None:
    want = Want(WantId(1), Purpose.FORWARD, (BlockHash(HASH),) * 2, (4, 5), 1.5, wait=True)
    assert decode(raw(GOOD_WANT)).message == want
    assert encode(Envelope(EngineId("a"), EngineId("b"), want)) == raw(GOOD_WANT)


def test_a_field_that_a_later_version_appends_is_ignored() -> None:
    assert decode(raw([*GOOD_WANT, "later"])) == decode(raw(GOOD_WANT))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (changed(1, -1), "Expected `int` >= 0"),
        (changed(1, 1 << 63), "Expected `int` <= "),
        (changed(2, "theft"), "Invalid enum value 'theft'"),
        (changed(3, [HASH]), "1 hashes but 2 destinations"),
        (changed(3, []), "length >= 1"),
        (changed(3, [b"1234567", HASH]), "Expected `bytes` of length >= 8"),
        (changed(3, [bytes(65), HASH]), "Expected `bytes` of length <= 64"),
        (changed(3, [HASH] * (MAX_BLOCKS + 1)), "length <= 65536"),
        (changed(4, [4, 4]), "two blocks with one destination"),
        (changed(4, [4, -5]), "Expected `int` >= 0"),
        (changed(4, [4, 1 << 31]), "Expected `int` <= "),
        (changed(5, 0.0), "Expected `float` > 0"),
        (changed(5, 3_601.0), "Expected `float` <= 3600"),
        (changed(5, math.nan), "Expected `float`"),
        (changed(5, math.inf), "Expected `float` <= 3600"),
        (changed(6, 1), "Expected `bool`"),
        (["offer", 1, "forward", 0, [HASH]], "nothing is offered for forward"),
        (["offer", 1, "move", 0, [HASH], [HASH, [1], [b""]]], "no parent if and only if"),
        (["offer", 1, "move", 5, [HASH], [None, [1], [b""]]], "no parent if and only if"),
        (["offer", 1, "move", 0, [HASH], [None, [1], []]], "1 hashes but the keys of 0"),
        (["offer", 1, "move", 0, [HASH], [None, [1 << 32], [b""]]], "Expected `int` <= "),
        (["offer", 1, "move", 0, [HASH], [None, [1] * (MAX_TOKENS + 1), [b""]]], "length <= 262144"),
        (["offer", 1, "move", 0, [HASH] * 257, [None, [1], [b""] * 257]], "length <= 256"),
        (["offer", 1, "move", 0, [HASH], [None, [1], [bytes(MAX_KEYS + 1)]]], "length <= 8192"),
        (["missing", 1, [], "nobody"], "length >= 1"),
        (["missing", 1, [MAX_BLOCKS], "nobody"], "Expected `int` <= "),
        (["ping", list(range(1_025)), [], 0, 0], "length <= 1024"),
        (["have", 1, MAX_BLOCKS + 1], "Expected `int` <= "),
        (["farewell"], "Invalid value 'farewell'"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_its_reason(message: list[Any], why: str) -> None:
    with pytest.raises(MessageError, match=why):
        decode(raw(message))


def test_a_want_of_100_000_hashes_is_refused() -> None:
    many = [b"%08d" % number for number in range(100_000)]
    with pytest.raises(MessageError):
        decode(raw(["want", 1, "forward", many, list(range(100_000)), 1.5, True, None]))


def test_the_largest_want_fits_into_a_message() -> None:
    blocks = range((1 << 31) - MAX_BLOCKS, 1 << 31)
    want = Want(WantId(1 << 62), Purpose.FORWARD, (BlockHash(bytes(32)),) * MAX_BLOCKS, tuple(blocks), 1.0, wait=True)
    assert decode(encode(Envelope(EngineId("a"), EngineId("b"), want))).message == want


def test_the_largest_offer_that_says_what_its_names_are_derived_from_fits_into_a_message() -> None:
    name = BlockHash(bytes(64))
    derived = Derivations(name, ((1 << 32) - 1,) * MAX_TOKENS, (bytes(MAX_KEYS),) * MAX_DERIVED)
    offer = Offer(OfferId(1 << 62), Purpose.MOVE, (1 << 31) - 1, (name,) * MAX_DERIVED, derived)
    assert decode(encode(Envelope(EngineId("a" * 256), EngineId("b" * 256), offer))).message == offer


def test_an_engine_that_does_not_say_so_publishes_nothing() -> None:
    fingerprint = ["m", "r", "d", "k", "l", "g", 16, 1, 1, "a", "s", "v", "c"]
    (hello,) = [decode(raw(["hello", 1, fingerprint, 100, [[b"agent", "DRAM", 0, [0], [1]]], False])).message]
    assert isinstance(hello, Hello)
    assert not hello.publishes


def test_a_region_beyond_the_address_space_is_refused() -> None:
    fingerprint = ["m", "r", "d", "k", "l", "g", 16, 1, 1, "a", "s", "v", "c"]
    memory = [b"agent", "DRAM", 0, [(1 << 63) - 10], [4096]]
    with pytest.raises(MessageError, match="beyond the address space"):
        decode(raw(["hello", 1, fingerprint, 100, [memory], False]))
    with pytest.raises(MessageError, match="1 regions but 2 strides"):
        decode(raw(["hello", 1, fingerprint, 100, [[b"agent", "DRAM", 0, [0], [1, 2]]], False]))


def test_fingerprints_differ_by_the_names_of_their_fields() -> None:
    own = Fingerprint("m", "r", "bfloat16", "auto", "l", "g", 16, 2, 1, "sha256_cbor", "0", "0.32.0", "0.1.0")
    assert own.differences(own) == ()
    other = Fingerprint("m", "r", "float16", "auto", "l", "g", 32, 2, 1, "sha256_cbor", "0", "0.32.0", "0.1.0")
    assert own.differences(other) == ("dtype: 'bfloat16' != 'float16'", "block_size: 16 != 32")


def test_every_message_class_is_part_of_the_union() -> None:
    tagged = {
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag is not None
    }
    assert tagged == set(Message.__args__)
