# SPDX-License-Identifier: Apache-2.0
"""Engines without vLLM: KV memory in numpy arrays, written by real NIXL. Runs in the engine environment."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np
import numpy.typing as npt

from tandem_connector.contract.messages import RankMemory
from tandem_connector.exchange.types import EngineId, WantId, Write
from tandem_connector.vllm.memory import Geometry, geometry_of
from tandem_connector.vllm.nixl import NixlTransport
from tandem_connector.vllm.reports import JobEnded, Received, Report
from tandem_connector.vllm.writer import Writer, WriterSettings, agent_name
from tests.transfer.builders import ATensor

LAYERS = 3
BLOCKS = 64
BLOCK_BYTES = 4096
_PATIENCE = 30.0
_SPAWN = get_context("spawn")


def memory_of(layers: int, blocks: int, block_bytes: int) -> tuple[npt.NDArray[np.uint8], Geometry]:
    """KV memory, and its geometry as if each layer were a tensor of bytes."""
    arrays = np.zeros((layers, blocks, block_bytes), dtype=np.uint8)
    tensors = {
        f"layers.{layer}": ATensor((blocks, block_bytes), arrays[layer].ctypes.data, element_bytes=1)
        for layer in range(layers)
    }
    return arrays, geometry_of(tensors, blocks)


@dataclass
class Engine:
    """A writer over its own memory."""

    engine: EngineId
    layers: int = LAYERS
    blocks: int = BLOCKS
    block_bytes: int = BLOCK_BYTES
    settings: WriterSettings = field(default_factory=WriterSettings)

    def __post_init__(self) -> None:
        self.kv, geometry = memory_of(self.layers, self.blocks, self.block_bytes)
        self.seen: list[Report] = []
        self.writer = Writer(
            lambda: NixlTransport.open(agent_name(self.engine, 0), geometry), rank=0, settings=self.settings
        )

    def fill(self, seed: int) -> None:
        self.kv[:] = np.random.default_rng(seed).integers(1, 256, size=self.kv.shape, dtype=np.uint8)

    def until(self, done: Callable[[list[Report]], bool], patience: float = _PATIENCE) -> bool:
        """Collect reports until `done` says that they are all."""
        end = time.monotonic() + patience
        while True:
            self.seen.extend(self.writer.reports())
            if done(self.seen):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(0.001)

    def ended(self, count: int) -> list[JobEnded]:
        """The first `count` jobs that ended."""
        assert self.until(lambda seen: sum(isinstance(report, JobEnded) for report in seen) >= count), self.seen
        return [report for report in self.seen if isinstance(report, JobEnded)]

    def received(self, want: WantId) -> set[int]:
        return {
            index
            for report in self.seen
            if isinstance(report, Received) and report.want == want
            for index in report.indices
        }

    def has_received(self, want: WantId, count: int) -> bool:
        return self.until(lambda _: len(self.received(want)) >= count)


@dataclass
class Remote:
    """An engine in another process, asked through a pipe."""

    engine: EngineId
    process: SpawnProcess
    pipe: Connection
    memory: RankMemory
    blocks: int

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of `Served` there."""
        self.pipe.send((method, arguments))
        return self.pipe.recv()

    def tell(self, method: str, *arguments: object) -> None:
        """Start a call whose answer is taken by `answer`."""
        self.pipe.send((method, arguments))

    def answer(self) -> Any:
        return self.pipe.recv()


class Served(Engine):
    """What a remote engine can be asked."""

    def expect(self, want: int, peer: str, blocks: int) -> None:
        self.writer.expect(WantId(want), EngineId(peer), blocks)

    def forget(self, want: int) -> None:
        self.writer.forget(WantId(want))

    def wait_received(self, want: int, count: int) -> list[int]:
        self.has_received(WantId(want), count)
        return sorted(self.received(WantId(want)))

    def add_peer(self, peer: str, memory: RankMemory, blocks: int) -> None:
        self.writer.add_peer(EngineId(peer), memory, blocks)

    def submit(self, write: Write) -> None:
        self.writer.submit([write])

    def pieces(self) -> int:
        return self.writer.counts.pieces

    def outcomes(self, count: int) -> list[str]:
        return [each.outcome.value for each in self.ended(count)]

    def content(self) -> npt.NDArray[np.uint8]:
        return self.kv.copy()

    def notification_counts(self) -> tuple[int, int]:
        counts = self.writer.counts.notifications
        return counts.malformed, counts.late

    def cpu_seconds(self) -> float:
        return self.writer.counts.cpu_seconds


def serve(pipe: Connection, engine: EngineId, shape: tuple[int, int, int], settings: WriterSettings) -> None:
    served = Served(engine, *shape, settings)
    pipe.send(served.writer.memory)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            break
        pipe.send(getattr(served, method)(*arguments))
    served.writer.close()
    os._exit(0)


@contextmanager
def remote(
    engine: str,
    shape: tuple[int, int, int] = (LAYERS, BLOCKS, BLOCK_BYTES),
    settings: WriterSettings | None = None,
) -> Iterator[Remote]:
    """An engine in a process of its own, ended at the end."""
    name = EngineId(engine)
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=serve, args=(theirs, name, shape, settings or WriterSettings()), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Remote(name, process, ours, ours.recv(), shape[1])
    finally:
        ours.close()
        process.join(5)
        process.kill()
        process.join()
