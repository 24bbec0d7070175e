# SPDX-License-Identifier: Apache-2.0
"""Peer tables, and a folder that changes as Kubernetes changes it."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tandem_connector.contract.peers import Address, Drain, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role
from tandem_connector.vllm.peer_table import TableChange


def a_peer(engine: str, *, state: EngineState = EngineState.READY, host: str = "10.0.0.1", ranks: int = 1) -> Peer:
    return Peer(
        engine=EngineId(engine),
        pod=engine,
        role=Role.PREFILL,
        state=state,
        address=Address(host=host, http_port=8000, side_channel_port=5601),
        parallelism=Parallelism(tensor=1, data=ranks),
        revision="r",
    )


def a_table(generation: int, *peers: Peer, drain: Drain | None = None) -> bytes:
    return PeerTable.of(Generation(generation), peers, drain).to_annotation().encode()


@dataclass
class Volume:
    """A folder that is filled in the way of kubelet's AtomicWriter."""

    folder: Path
    versions: int = 0

    @property
    def path(self) -> Path:
        return self.folder / "peers.json"

    def put(self, content: bytes) -> None:
        self.versions += 1
        version = self.folder / f"..version-{self.versions}"
        version.mkdir()
        (version / "peers.json").write_bytes(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")
        if not self.path.is_symlink():
            self.path.symlink_to(Path("..data", "peers.json"))

    def remove(self) -> None:
        (self.folder / "..data").unlink()


@dataclass
class Listener:
    """Who is told of changes."""

    changes: list[TableChange] = field(default_factory=list)
    told: threading.Event = field(default_factory=threading.Event)

    def __call__(self, change: TableChange) -> None:
        self.changes.append(change)
        self.told.set()

    def hears_of(self, generation: int) -> TableChange:
        def found() -> TableChange | None:
            return next((change for change in self.changes if change.table.generation == generation), None)

        until(lambda: found() is not None)
        change = found()
        assert change is not None
        return change


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end, "it never came so far"
        time.sleep(0.01)
