# SPDX-License-Identifier: Apache-2.0
"""The work of an event is that of the blocks it is about, counted, not timed."""

from typing import ClassVar

from tandem_connector.contract.messages import Cancel, Purpose, Want
from tandem_connector.contract.types import WantId
from tandem_connector.exchange.types import BlockHash, FreshBlocks, RequestId, StepId
from tests.exchange.builders import PEER, Engine, name, names

AWAITED = 10_000


class CountedHash(bytes):
    """A block's name that counts how often it is looked for in any dictionary."""

    looked_for: ClassVar[int] = 0

    def __hash__(self) -> int:
        CountedHash.looked_for += 1
        return super().__hash__()

    __eq__ = bytes.__eq__


def counted(hashes: tuple[BlockHash, ...]) -> tuple[BlockHash, ...]:
    return tuple(BlockHash(CountedHash(block_hash)) for block_hash in hashes)


def an_engine_that_peers_wait_for() -> Engine:
    """10,000 hashes in 10 wants, all to be computed by one request."""
    engine = Engine(blocks=200).with_peer(PEER, AWAITED)
    hashes = counted(names(0, AWAITED))
    engine.exchange.request_produces(RequestId("r"), hashes)
    for number in range(10):
        first = number * AWAITED // 10
        part = hashes[first : first + AWAITED // 10]
        want = Want(WantId(number), Purpose.FORWARD, part, tuple(range(first, first + len(part))), 60.0, wait=True)
        engine.hears(want)
    engine.commands()
    assert engine.exchange.gauges().hashes_awaited == AWAITED
    return engine


def look_ups(engine: Engine) -> int:
    return CountedHash.looked_for + engine.pool.lookups


def test_a_step_that_computes_16_blocks_looks_for_16_of_10_000_awaited_hashes() -> None:
    engine = an_engine_that_peers_wait_for()
    sixteen = counted(names(500, 516))
    blocks = engine.pool.take(16)
    assert blocks is not None
    engine.pool.lookups = CountedHash.looked_for = 0
    engine.exchange.step_scheduled(StepId(1), [FreshBlocks(RequestId("r"), 500, sixteen, blocks)])
    assert engine.pool.lookups == 0
    # Three each: who waits for it, and taking it out of those who wait (found, then empty).
    assert CountedHash.looked_for <= 3 * 16
    (write,) = engine.writes()
    assert len(write.indices) == 16
    assert engine.exchange.gauges().hashes_awaited == AWAITED - 16


def test_a_step_that_computes_nothing_awaited_costs_one_look_up_a_block() -> None:
    engine = an_engine_that_peers_wait_for()
    blocks = engine.pool.take(16)
    assert blocks is not None
    CountedHash.looked_for = 0
    other = FreshBlocks(RequestId("r"), 0, counted(names(0, 16, "other")), blocks)
    engine.exchange.step_scheduled(StepId(1), [other])
    assert CountedHash.looked_for == 16


def test_ticks_steps_and_writes_look_for_no_hash() -> None:
    engine = an_engine_that_peers_wait_for()
    engine.at(5.0)  # the grace is over
    engine.steps(1, (name(0, "other"),))
    engine.commands()
    engine.pool.lookups = CountedHash.looked_for = 0
    for step in range(2, 12):
        engine.at(1.0)
        engine.exchange.step_scheduled(StepId(step), [])
        engine.exchange.step_finished(StepId(step))
    assert look_ups(engine) == 0


def test_the_end_of_a_request_looks_only_for_its_own_hashes() -> None:
    engine = an_engine_that_peers_wait_for()
    engine.at(5.0)
    engine.exchange.request_produces(RequestId("small"), counted(names(0, 8, "small")))
    CountedHash.looked_for = 0
    engine.exchange.request_ended(RequestId("small"), engine.now, offer=False)
    assert CountedHash.looked_for <= 8 * 5


def test_the_end_of_a_want_looks_only_for_its_own_hashes() -> None:
    engine = an_engine_that_peers_wait_for()
    engine.hears(Want(WantId(10), Purpose.FORWARD, counted(names(0, 8, "small")), tuple(range(8)), 60.0, wait=True))
    engine.pool.lookups = CountedHash.looked_for = 0
    engine.hears(Cancel(WantId(10)))
    assert look_ups(engine) <= 8 * 3
