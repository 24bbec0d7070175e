# SPDX-License-Identifier: Apache-2.0
"""Who has the resource's key and abuses it: the conversation goes on, and neither memory nor the peers that behave suffer."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import zmq

from e2e.conversation import held
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.asking import Meanwhile
from e2e.exchange.numbers import value_of
from e2e.exchange.processes import resident_bytes
from e2e.exchange.prompts import ask
from e2e.exchange.rogue import Rogue, a_connection, rogues
from e2e.suite.exchange.conftest import CROWD, Reference
from e2e.suite.exchange.three.conftest import Three, tell_decode
from tandem_connector.contract.messages import (
    Cancel,
    CancelAck,
    Gone,
    Hello,
    Missing,
    MissingReason,
    Offer,
    Ping,
    Purpose,
    Query,
    Want,
)
from tandem_connector.contract.types import BlockHash, EngineId, OfferId, QueryId, WantId, pod_of

MANY: Final = 65_536
"""Most blocks that one message may name."""
POOL: Final = 1 << 20
"""Blocks that each of them says it has."""
MEMORY: Final = 400 << 20
"""Bytes that an engine may have more afterwards."""
Attack: TypeAlias = Callable[[Rogue, Hello], None]


def hashes(count: int, chain: int = 0) -> tuple[BlockHash, ...]:
    return tuple(BlockHash(chain.to_bytes(16, "big") + number.to_bytes(16, "big")) for number in range(count))


def a_want(number: int, count: int, *, first: int = 0, wait: bool = True, chain: int = 0) -> Want:
    places = tuple(range(first, first + count))
    return Want(WantId(number), Purpose.FORWARD, hashes(count, chain), places, 3_600.0, wait)


def nonsense(rogue: Rogue, _own: Hello) -> None:
    for size in (0, 1, 1_000, 1_000_000):
        rogue.put(os.urandom(size))
    rogue.put(b"\x93", b"in", b"parts")
    rogue.put(msgspec.msgpack.encode([rogue.id, "decode", ["want"] + [[]] * 1_000_000]))


def a_huge_frame(rogue: Rogue, _own: Hello) -> None:
    for _ in range(3):
        rogue.put(bytes(100 << 20))


def too_many_hashes(rogue: Rogue, _own: Hello) -> None:
    rogue.say(a_want(1, 100_000))


def a_block_out_of_range(rogue: Rogue, own: Hello) -> None:
    rogue.say(a_want(1, 1, first=own.blocks))


def wants_without_end(rogue: Rogue, _own: Hello) -> None:
    for number in range(40):
        rogue.say(a_want(number + 1, MANY, chain=number, wait=number % 2 == 0))


def offers_of_what_nobody_asked_for(rogue: Rogue, _own: Hello) -> None:
    for number in range(10):
        rogue.say(Offer(OfferId(number), Purpose.REVERSE_PUSH, 0, hashes(MANY, 1_000 + number)))


def questions(rogue: Rogue, _own: Hello) -> None:
    for number in range(200):
        rogue.say(Query(QueryId(number), hashes(100)), Ping((), (), WantId(1 << 62), 1 << 62))


def hellos(rogue: Rogue, own: Hello) -> None:
    for _ in range(5_000):
        rogue.say(msgspec.structs.replace(own, answer=True))


def words_about_others_wants(rogue: Rogue, _own: Hello) -> None:
    for number in map(WantId, range(1, 300)):
        rogue.say(Missing(number, None, MissingReason.NOBODY), CancelAck(number), Cancel(number))


def other_names(rogue: Rogue, _own: Hello) -> None:
    """For an incarnation that ended, and from engines that nobody knows."""
    for number in range(300):
        rogue.say(a_want(number, 10), target=EngineId("decode-before"))
        rogue.say(a_want(number, 10), sender=EngineId(f"nobody-{number}"))
        rogue.say(Gone(EngineId(f"nobody-{number}")))


ATTACKS: Final[Mapping[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        *(nonsense, a_huge_frame, too_many_hashes, a_block_out_of_range, wants_without_end, questions, hellos),
        *(offers_of_what_nobody_asked_for, words_about_others_wants, other_names),
    )
}


def count(three: Three, name: str, **labels: str) -> float:
    return value_of(three.decode.metrics(), f"tandem_{name}_total", **labels)


def test_engines_with_the_key_that_break_every_rule_harm_nobody(three: Three, reference: Reference) -> None:
    decode = three.decode
    nothing_is_held(decode)
    memory = resident_bytes(decode)
    with rogues(decode, three.keys, tuple(ATTACKS)) as gang:
        listed = [rogue.as_peer() for rogue in gang.values()]
        tell_decode(three, *three.engines.peers_of(decode), *listed)
        owns = {name: rogue.join(POOL) for name, rogue in gang.items()}

        def attack() -> None:
            for name, rogue in gang.items():
                ATTACKS[name](rogue, owns[name])

        attacking = Meanwhile(attack)
        turns = list(held(decode.url, MODEL_NAME, session="attacked"))
        attacking.result()
        assert [turn.text for turn in turns] == [turn.text for turn in reference.conversation]
        answer = ask(decode, CROWD[2].ids(three.model))
        assert reference.is_right(CROWD[2], answer.text)
        assert "forward" in answer.account["received"], "prefill isn't used any more"
    assert resident_bytes(decode) - memory < MEMORY
    log = decode.log.read_text(errors="replace")
    dropped = {name for name in ATTACKS if f"peer_dropped peer={gang[name].id}" in log}
    assert dropped == {"nonsense", "too_many_hashes", "a_block_out_of_range"}
    assert count(three, "blocks_missing", purpose="forward", reason="refused") > 0
    assert count(three, "network_messages", what="misaddressed") >= 300
    assert count(three, "network_messages", what="strangers") >= 300
    # What was offered and taken stays in quarantine until nobody can write it: till the pods are said to be gone.
    tell_decode(three, *three.engines.peers_of(decode), gone=[pod_of(rogue.id) for rogue in gang.values()])
    nothing_is_held(three.prefill, decode, within=30.0)


def test_a_flood_from_nobody_in_particular_harms_nobody(three: Three, reference: Reference) -> None:
    """It has the key, and is in no table."""
    decode = three.decode
    memory = resident_bytes(decode)
    with zmq.Context() as context:

        def flood() -> None:
            for _ in range(200):
                with a_connection(context, decode, three.keys, three.keys) as stranger:
                    stranger.send(os.urandom(100_000))

        flooding: Meanwhile[Any] = Meanwhile(flood)
        for prompt in CROWD[3:5]:
            assert reference.is_right(prompt, ask(decode, prompt.ids(three.model)).text)
        flooding.result()
    assert resident_bytes(decode) - memory < MEMORY
    nothing_is_held(three.prefill, decode, within=30.0)
