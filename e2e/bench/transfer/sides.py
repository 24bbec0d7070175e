# SPDX-License-Identifier: Apache-2.0
"""The same memory twice in each process: once behind our writer, once behind a NIXL agent that is called directly."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt

from tandem_connector.contract.messages import MemoryKind, RankMemory
from tandem_connector.exchange.types import EngineId, WantId
from tandem_connector.vllm.memory import Geometry, Region
from tandem_connector.vllm.nixl import NixlTransport
from tandem_connector.vllm.pacing import Intervals
from tandem_connector.vllm.reports import JobEnded, Received
from tandem_connector.vllm.writer import Writer, agent_name

LAYERS, BLOCKS, BLOCK_BYTES = 4, 1024, 16384
"""The small model's KV: 64 KiB a block over all layers."""
RAW_PAUSE = Intervals().fastest
_SPAWN = get_context("spawn")


def _memory(blocks: int) -> tuple[npt.NDArray[np.uint8], Geometry]:
    kv = np.ones((LAYERS, blocks, BLOCK_BYTES), dtype=np.uint8)
    regions = tuple(Region(layer.ctypes.data, BLOCK_BYTES) for layer in kv)
    return kv, Geometry(kind=MemoryKind.DRAM, device=0, blocks=blocks, regions=regions)


class Ours:
    """A writer, and its reports."""

    def __init__(self, engine: EngineId, blocks: int = BLOCKS) -> None:
        """Register memory of this process."""
        self.engine = engine
        self.kv, geometry = _memory(blocks)
        self._news = threading.Event()
        self.writer = Writer(
            lambda: NixlTransport.open(agent_name(engine, 0), geometry),
            rank=0,
            on_reports=lambda _: self._news.set(),
        )

    def wait(self, jobs: int = 0, blocks: int = 0) -> float:
        """Wait until so many jobs ended and so many blocks arrived; returns the time of the last report."""
        while jobs > 0 or blocks > 0:
            self._news.wait()
            self._news.clear()
            for report in self.writer.reports():
                match report:
                    case JobEnded(outcome=outcome):
                        if outcome != "written":
                            raise RuntimeError(f"a write ended {outcome}: {report.why}")
                        jobs -= 1
                    case Received(indices=indices):
                        blocks -= len(indices)
        return time.perf_counter()


class Raw:
    """NIXL's Python API and nothing else, polled by loops that sleep as the writer does when data moves.

    Loops that don't sleep are faster on an idle machine, and slower where they take the cores from each other.
    """

    def __init__(self, name: str, blocks: int = BLOCKS) -> None:
        """Register memory of this process."""
        from nixl._api import nixl_agent, nixl_agent_config  # noqa: PLC0415 - exists in the engine environment only

        self.agent: Any = nixl_agent(name, nixl_agent_config(enable_prog_thread=False))
        self.kv, self.geometry = _memory(blocks)
        self.bases = [region.address for region in self.geometry.regions]
        self.agent.register_memory([(base, blocks * BLOCK_BYTES, 0, "") for base in self.bases], "DRAM")
        self._local = self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", self._descriptors(self.bases, blocks), "DRAM")
        self._remote: dict[str, tuple[Any, int]] = {}

    @staticmethod
    def _descriptors(bases: list[int], blocks: int) -> npt.NDArray[np.uint64]:
        every = np.arange(blocks, dtype=np.uint64) * np.uint64(BLOCK_BYTES)
        addresses = np.concatenate([np.uint64(base) + every for base in bases])
        rest = np.full_like(addresses, BLOCK_BYTES), np.zeros_like(addresses)
        return np.stack([addresses, *rest], axis=1)

    def connect(self, name: str, metadata: bytes, bases: list[int], blocks: int) -> None:
        """Make a peer's memory writable."""
        self.agent.add_remote_agent(metadata)
        self._remote[name] = self.agent.prep_xfer_dlist(name, self._descriptors(bases, blocks), "DRAM"), blocks

    def write(self, peers: list[str], sources: list[int], destinations: list[int]) -> None:
        """Write the same blocks to each peer, in one transfer each, and wait for all."""
        layers = np.arange(LAYERS, dtype=np.int64)[:, None]
        ours = self._indices(layers * self.geometry.blocks, sources)
        running = []
        for peer in peers:
            descriptors, count = self._remote[peer]
            theirs = self._indices(layers * count, destinations)
            handle = self.agent.make_prepped_xfer("WRITE", self._local, ours, descriptors, theirs, b"done")
            self.agent.transfer(handle)
            running.append(handle)
        while running:
            for handle in list(running):
                if self.agent.check_xfer_state(handle) == "DONE":
                    self.agent.release_xfer_handle(handle)
                    running.remove(handle)
            time.sleep(RAW_PAUSE)

    @staticmethod
    def _indices(layers: npt.NDArray[np.int64], blocks: list[int]) -> npt.NDArray[np.int32]:
        indices: npt.NDArray[np.int32] = (layers + np.asarray(blocks)).ravel().astype(np.int32)
        return indices

    def receive(self) -> None:
        """Poll until a notification came."""
        while not self.agent.get_new_notifs():
            time.sleep(RAW_PAUSE)


@dataclass(frozen=True)
class Target:
    """A process that is written to."""

    engine: EngineId
    pipe: Connection
    memory: RankMemory
    raw_metadata: bytes
    raw_bases: list[int]
    blocks: int

    def start(self, method: str, *arguments: object) -> None:
        """Call a method of `_Serving` there."""
        self.pipe.send((method, arguments))

    def result(self) -> float:
        """What the call that was started returned."""
        return float(self.pipe.recv())


class _Serving:
    def __init__(self, engine: EngineId, blocks: int) -> None:
        self.ours, self.raw = Ours(engine, blocks), Raw(f"raw-{engine}", blocks)

    def expect(self, want: int, peer: str, blocks: int) -> float:
        self.ours.writer.expect(WantId(want), EngineId(peer), blocks)
        return self.ours.writer.counts.cpu_seconds

    def receive_ours(self, want: int, blocks: int) -> float:
        self.ours.wait(blocks=blocks)
        self.ours.writer.forget(WantId(want))
        return self.ours.writer.counts.cpu_seconds

    def receive_raw(self) -> float:
        began = time.thread_time()
        self.raw.receive()
        return time.thread_time() - began


def _serve(pipe: Connection, engine: EngineId, blocks: int) -> None:
    serving = _Serving(engine, blocks)
    pipe.send((serving.ours.writer.memory, serving.raw.agent.get_agent_metadata(), serving.raw.bases, blocks))
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            break
        pipe.send(getattr(serving, method)(*arguments))
    serving.ours.writer.close()
    os._exit(0)


@contextmanager
def targets(count: int, blocks: int) -> Iterator[list[Target]]:
    """Processes to write to, each with memory of so many blocks, ended at the end."""
    started = []
    for number in range(count):
        ours, theirs = _SPAWN.Pipe()
        name = EngineId(f"target-{number}-of-{count}")
        process = _SPAWN.Process(target=_serve, args=(theirs, name, blocks), daemon=True)
        process.start()
        theirs.close()
        started.append((name, process, ours))
    try:
        yield [Target(name, pipe, *pipe.recv()) for name, _, pipe in started]
    finally:
        for _, _, pipe in started:
            pipe.close()
        for _, process, _ in started:
            process.join(5)
            process.kill()


def timed(action: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds of this thread that `action` takes."""
    cpu, wall = time.thread_time(), time.perf_counter()
    action()
    return time.perf_counter() - wall, time.thread_time() - cpu
