# SPDX-License-Identifier: Apache-2.0
"""One turn found again in the journals of both engines, which recorded exchanges wrote."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.bench.kv.journals import EngineJournal, exchanged
from e2e.bench.kv.ways import Turn
from tandem_connector.contract.messages import Envelope, Purpose
from tandem_connector.exchange.commands import PostWrite, Send
from tandem_connector.exchange.types import (
    BlockHash,
    EngineId,
    FreshBlocks,
    Load,
    RequestId,
    Seconds,
    StepId,
    WriteEnd,
)
from tandem_connector.vllm.journal import Journal, read_journal
from tandem_connector.vllm.recording import RecordedExchange
from tests.exchange.builders import names
from tests.exchange.toy_pool import ToyPool

DECODE, PREFILL = EngineId("decode"), EngineId("prefill")
AT_DECODE, AT_PREFILL = RequestId("cmpl-turn-0-abc"), RequestId("cmpl-cmpl-turn-0-abc-0-def")
NOW = Seconds(0.0)


@dataclass
class Recorded:
    """An exchange whose journal has times that count up by one with every entry."""

    name: EngineId
    folder: Path

    def __post_init__(self) -> None:
        self.path = self.folder / self.name
        ticks: Iterator[int] = iter(range(1_000_000))
        self.journal = Journal(self.path, clock=lambda: float(next(ticks)))
        self.pool = ToyPool(32)
        self.exchange = RecordedExchange(self.name, self.pool, None, self.journal)

    def fills(self, request: RequestId, step: int, position: int, hashes: tuple[BlockHash, ...]) -> None:
        blocks = self.pool.take(len(hashes))
        assert blocks is not None
        for block_hash, block in zip(hashes, blocks, strict=True):
            self.pool.name(block_hash, block)
        self.exchange.step_scheduled(StepId(step), [FreshBlocks(request, position, hashes, blocks)])
        self.exchange.step_finished(StepId(step))

    def ends(self, request: RequestId, **account: object) -> None:
        self.exchange.request_ended(request, NOW, offer=True)
        self.journal.write("turn", {"request": request, **account})

    def read(self) -> EngineJournal:
        return EngineJournal(read_journal(self.path))


def deliver(*engines: Recorded) -> None:
    """Carry messages between both, and write what is to be written, until nothing is left to do."""
    by_name = {engine.name: engine for engine in engines}
    while commands := [(engine, command) for engine in engines for command in engine.exchange.commands()]:
        for engine, command in commands:
            if isinstance(command, Send):
                by_name[command.peer].exchange.receive(Envelope(engine.name, command.peer, command.message), NOW)
            elif isinstance(command, PostWrite):
                write = command.write
                by_name[write.peer].exchange.want_received(write.want, write.indices, NOW)
                engine.exchange.write_ended(write.job, WriteEnd.WRITTEN, NOW)


@pytest.fixture
def journals(tmp_path: Path) -> tuple[EngineJournal, EngineJournal]:
    """P computes three blocks of a prompt that D wants, D adds a fourth one and offers it."""
    decode, prefill = Recorded(DECODE, tmp_path), Recorded(PREFILL, tmp_path)
    decode.exchange.peer_connected(PREFILL, 32, NOW)
    prefill.exchange.peer_connected(DECODE, 32, NOW)
    decode.journal.write("arrived", {"request": AT_DECODE})
    decode.exchange.offers_go_to(AT_DECODE, PREFILL)
    blocks = decode.pool.take(3)
    assert blocks is not None
    load = Load(AT_DECODE, Purpose.FORWARD, names(0, 3), blocks, Seconds(10.0), wait=True)
    decode.exchange.want(PREFILL, load, NOW)
    prefill.journal.write("arrived", {"request": AT_PREFILL})
    prefill.exchange.request_produces(AT_PREFILL, names(0, 3))
    deliver(decode, prefill)
    prefill.fills(AT_PREFILL, 1, 0, names(0, 3))
    deliver(decode, prefill)
    prefill.ends(AT_PREFILL, prompt=100, computed=100, received={})
    decode.fills(AT_DECODE, 1, 3, names(3, 4))
    decode.ends(AT_DECODE, computed=4, received={"forward": 96})
    deliver(decode, prefill)
    return decode.read(), prefill.read()


def a_turn(request: str) -> Turn:
    return Turn(
        request=request,
        number=0,
        prompt=100,
        output=40,
        held_before=0,
        began=0.0,
        seconds_to_first_token=1.0,
        seconds=2.0,
        computed=4,
    )


def test_a_turn_is_found_at_both_engines(journals: tuple[EngineJournal, EngineJournal]) -> None:
    found = exchanged(a_turn("turn"), *journals)
    assert (found.computed_by_decode, found.computed_by_prefill) == (4, 100)
    assert (found.forward_blocks, found.fetched_blocks, found.pushed_blocks) == (3, 0, 1)


def test_times_are_those_between_its_events(journals: tuple[EngineJournal, EngineJournal]) -> None:
    at_decode, at_prefill = (journal.named(name) for journal, name in zip(journals, ("turn", AT_DECODE), strict=True))
    assert at_decode is not None
    assert at_prefill is not None
    assert at_prefill.arrived < at_prefill.computed < at_prefill.ended
    assert at_decode.loaded is not None
    assert at_decode.arrived < at_decode.loaded < at_decode.ended


def test_a_turn_that_decode_never_saw_is_an_error(journals: tuple[EngineJournal, EngineJournal]) -> None:
    with pytest.raises(LookupError, match="another is not in decode's journal"):
        exchanged(a_turn("another"), *journals)
