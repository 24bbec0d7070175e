# SPDX-License-Identifier: Apache-2.0
"""The exchange as it wants, over real memory that real NIXL writes into: the writer is frozen with writes in flight, and thaws
when their want is long over and its blocks are given to others, as far as the exchange lets them be.

Runs in the engine environment: `python -m tests.transfer.late_writes safe|unsafe`.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from e2e.exchange.unsafe import ExchangeWithoutQuarantine
from tandem_connector.contract.messages import CancelAck, Envelope, Purpose
from tandem_connector.exchange.commands import ExpectWant, ForgetWant, LoadEnded
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import EngineId, Load, RequestId, Seconds, WantId
from tests.exchange.builders import names
from tests.exchange.toy_pool import ToyPool
from tests.transfer.builders import a_write
from tests.transfer.rig import LAYERS, Engine, remote

BLOCKS, BLOCK_BYTES = 1024, 32 << 10
WANTED = 512
"""48 MiB, of which a peer that reads nothing takes a few."""
SOURCE, TARGET = EngineId("source"), EngineId("target")
OWN, FOREIGN = 201, 77
"""Bytes that the request computes itself, and that those compute who get its blocks after it."""


class Wanter:
    """An exchange over the memory of a writer."""

    def __init__(self, make: Callable[[EngineId, ToyPool], Exchange]) -> None:
        self.engine = Engine(TARGET, LAYERS, BLOCKS, BLOCK_BYTES)
        self.pool = ToyPool(BLOCKS)
        self.exchange = make(TARGET, self.pool)
        self.exchange.peer_connected(SOURCE, BLOCKS, now())

    def carry_out(self) -> list[LoadEnded]:
        """What the exchange commands of the writer; the ends of wants."""
        ended = []
        for command in self.exchange.commands():
            match command:
                case ExpectWant(want, peer, blocks):
                    self.engine.writer.expect(want, peer, len(blocks))
                case ForgetWant(want):
                    self.engine.writer.forget(want)
                case LoadEnded():
                    ended.append(command)
        return ended


def now() -> Seconds:
    return Seconds(time.monotonic())


def frozen_and_thawed(make: Callable[[EngineId, ToyPool], Exchange]) -> dict[str, Any]:
    wanter = Wanter(make)
    target, pool, exchange = wanter.engine, wanter.pool, wanter.exchange
    with remote(SOURCE, (LAYERS, BLOCKS, BLOCK_BYTES)) as source:
        assert source.process.pid is not None
        source.ask("fill", 1)
        source.ask("add_peer", TARGET, target.writer.memory, BLOCKS)
        source.ask("submit", a_write(1, to=TARGET, want=0, destinations=[BLOCKS - 1]))
        source.ask("outcomes", 1)

        blocks = pool.take(WANTED) or ()
        load = Load(RequestId("r"), Purpose.FORWARD, names(0, WANTED), blocks, Seconds(1.0), wait=True)
        want = exchange.want(SOURCE, load, now())
        assert want is not None
        # The target's writer expects nothing yet, so it reads next to nothing: what is posted stays in flight.
        source.ask("submit", a_write(2, to=TARGET, want=want, sources=range(WANTED), destinations=blocks))
        while source.ask("pieces") < 3:
            time.sleep(0.001)
        os.kill(source.process.pid, signal.SIGSTOP)
        wanter.carry_out()

        exchange.peer_silent(SOURCE, now())
        (ended,) = wanter.carry_out()
        target.kv[:, list(blocks)] = OWN
        pool.unpin(blocks)
        others = list(pool.take(pool.free) or ())
        target.kv[:, others] = FOREIGN

        # Something to wait for, so that the writer goes on reading.
        target.writer.expect(WantId(want + 1), SOURCE, 1)
        os.kill(source.process.pid, signal.SIGCONT)
        outcomes = source.ask("outcomes", 2)
        late = int((target.kv[:, list(blocks)] != OWN).any(axis=(0, 2)).sum())
        foreign = int((target.kv[:, others] != FOREIGN).sum())

        exchange.peer_back(SOURCE, now())
        exchange.receive(Envelope(SOURCE, TARGET, CancelAck(want)), now())
        wanter.carry_out()
    return {
        "ended": ended.reason.value,
        "outcomes": outcomes,
        "given_to_others": len(others),
        "written_late": late > 0,
        "foreign_bytes": foreign,
        "given_back": pool.free + len(others),
    }


if __name__ == "__main__":
    kind = {"safe": Exchange, "unsafe": ExchangeWithoutQuarantine}[sys.argv[1]]
    print(json.dumps(frozen_and_thawed(kind)), flush=True)
    os._exit(0)
