# SPDX-License-Identifier: Apache-2.0
"""CPU of the exchange's own code per want and per step, while peers wait for 10,000 blocks. No engine, no network."""

import time
from collections.abc import Callable, Sequence

from e2e.bench.figure import figure
from tandem_connector.contract.messages import Envelope, Missing, Purpose, Want
from tandem_connector.contract.types import WantId
from tandem_connector.exchange.commands import PostWrite
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import (
    BlockHash,
    BlockId,
    Derivation,
    EngineId,
    FreshBlocks,
    RequestId,
    Seconds,
    StepId,
    WriteEnd,
)

AWAITED = 10_000
_WANTS = 100
_STEPS = 500
_HOLDER, _WANTER = EngineId("holder"), EngineId("wanter")
_NOW = Seconds(0.0)


class _Pool:
    """Has a place for every block, and forgets none."""

    def __init__(self) -> None:
        self.names: dict[BlockHash, BlockId] = {}

    def lookup(self, block_hash: BlockHash) -> BlockId | None:
        return self.names.get(block_hash)

    def pin(self, blocks: Sequence[BlockId]) -> None:
        """No reference is counted."""

    def unpin(self, blocks: Sequence[BlockId]) -> None:
        """Nor taken."""

    def room(self, landing: int) -> int:
        return AWAITED - landing

    def take(self, count: int) -> tuple[BlockId, ...] | None:
        return tuple(BlockId(block) for block in range(count))

    def commit(
        self,
        block_hash: BlockHash,
        block: BlockId,
        position: int,  # noqa: ARG002
        derivation: Derivation | None,  # noqa: ARG002
    ) -> bool:
        self.names[block_hash] = block
        return True

    def derivations(self, hashes: Sequence[BlockHash]) -> None:
        """It isn't known."""


def print_cost_of_wants() -> None:
    """Figures of one holder whose only peer wants `AWAITED` blocks in `_WANTS` wants, all to be computed yet."""
    pool, hashes = _Pool(), [BlockHash(number.to_bytes(32, "big")) for number in range(AWAITED)]
    exchange = Exchange(_HOLDER, pool)
    exchange.peer_connected(_WANTER, AWAITED, _NOW)
    exchange.request_produces(RequestId("r"), hashes)
    each = AWAITED // _WANTS

    def ask() -> None:
        for number in range(_WANTS):
            part = range(number * each, (number + 1) * each)
            want = Want(
                WantId(number), Purpose.FORWARD, tuple(hashes[at] for at in part), tuple(part), 600.0, wait=True
            )
            exchange.receive(Envelope(_WANTER, _HOLDER, want), _NOW)

    figure(f"cpu_per_want_of_{each}_blocks", _cpu(ask) / _WANTS * 1e6, "us")
    assert exchange.gauges().hashes_awaited == AWAITED
    figure(f"cpu_per_step_while_{AWAITED}_blocks_are_awaited", _cpu(lambda: _idle_steps(exchange)) / _STEPS * 1e6, "us")
    figure(
        f"cpu_per_block_while_{AWAITED}_blocks_are_awaited",
        _cpu(lambda: _serve(exchange, pool, hashes)) / AWAITED * 1e6,
        "us",
    )
    assert exchange.gauges().hashes_awaited == 0


def _idle_steps(exchange: Exchange) -> None:
    for step in range(_STEPS):
        exchange.step_scheduled(StepId(step), [])
        exchange.tick(_NOW)
        exchange.commands()
        exchange.step_finished(StepId(step))


def _serve(exchange: Exchange, pool: _Pool, hashes: Sequence[BlockHash]) -> None:
    """Each step fills 16 blocks, which are written before the next."""
    for number in range(0, len(hashes), 16):
        step = StepId(_STEPS + number)
        part = tuple(hashes[number : number + 16])
        blocks = tuple(BlockId(number + at) for at in range(len(part)))
        pool.names |= dict(zip(part, blocks, strict=True))
        exchange.step_scheduled(step, [FreshBlocks(RequestId("r"), number, part, blocks)])
        commands = exchange.commands()
        assert not any(isinstance(getattr(command, "message", None), Missing) for command in commands)
        exchange.step_finished(step)
        for command in commands:
            if isinstance(command, PostWrite):
                exchange.write_ended(command.write.job, WriteEnd.WRITTEN, _NOW)


def _cpu(action: Callable[[], None]) -> float:
    began = time.thread_time()
    action()
    return time.thread_time() - began
