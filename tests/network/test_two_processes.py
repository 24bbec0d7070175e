# SPDX-License-Identifier: Apache-2.0
"""An engine in a process of its own, which is stopped, goes on, and is killed."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

import pytest

from tandem_connector.contract.messages import Cancel, CancelAck
from tandem_connector.contract.types import WantId
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.keys import CurveKeys
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.events import PeerBack, PeerJoined, PeerReplaced, PeerSilent, Received
from tests.network.builders import Engine, Stage, table


def live(pipe: Connection, name: str, keys: CurveKeys, at: Endpoint) -> None:
    """What the other process does: answer each Cancel, until it is told to end."""
    stage = Stage(keys)
    engine = stage.engine(name, at=at)
    pipe.send(engine.network.endpoint)
    engine.network.set_peers(pipe.recv())
    while not pipe.poll():
        engine.woken.wait(0.05)
        for event in engine.network.take():
            engine.told.append(event)
            if isinstance(event, Received) and isinstance(event.envelope.message, Cancel):
                engine.network.send(event.envelope.sender, CancelAck(event.envelope.message.want))
    pipe.recv()
    pipe.send(sum(isinstance(event, PeerSilent) for event in engine.told))
    stage.close()


@dataclass
class Other:
    """An engine in another process."""

    name: EngineId
    process: "multiprocessing.process.BaseProcess"
    pipe: "Connection"
    endpoint: Endpoint

    @classmethod
    def start(cls, name: str, one: Engine, keys: CurveKeys, at: Endpoint) -> "Other":
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=live, args=(theirs, name, keys, at), daemon=True)
        process.start()
        theirs.close()
        endpoint = ours.recv()
        ours.send(table(one))
        return cls(EngineId(name), process, ours, endpoint)

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> int:
        """How often it called its peer silent."""
        self.pipe.send("end")
        silences: int = self.pipe.recv()
        self.process.join()
        return silences


@pytest.fixture
def others() -> Iterator[list[Other]]:
    others: list[Other] = []
    yield others
    for other in others:
        if other.process.is_alive():
            other.process.kill()
        other.process.join()


def test_a_stopped_process_is_silent_and_blames_nobody_when_it_goes_on(locked: Stage, others: list[Other]) -> None:
    assert locked.keys is not None
    one = locked.engine("one")
    other = Other.start("other", one, locked.keys, Endpoint("127.0.0.1", 0))
    others.append(other)
    one.network.set_peers({other.name: other.endpoint})
    one.hears(PeerJoined)
    other.signal(signal.SIGSTOP)
    one.hears(PeerSilent)
    other.signal(signal.SIGCONT)
    one.hears(PeerBack)
    one.network.send(other.name, Cancel(WantId(1)))
    one.receives(CancelAck(WantId(1)))
    assert other.end() == 0


def test_a_killed_process_is_replaced_by_the_next_at_its_address(locked: Stage, others: list[Other]) -> None:
    assert locked.keys is not None
    one = locked.engine("one")
    first = Other.start("other-1", one, locked.keys, Endpoint("127.0.0.1", 0))
    others.append(first)
    one.network.set_peers({first.name: first.endpoint})
    one.hears(PeerJoined)
    first.signal(signal.SIGKILL)
    first.process.join()
    second = Other.start("other-2", one, locked.keys, first.endpoint)
    others.append(second)
    assert one.hears(PeerReplaced).peer == first.name
    one.network.set_peers({second.name: second.endpoint})
    one.hears(PeerJoined, lambda event: event.peer == second.name)
    one.network.send(second.name, Cancel(WantId(2)))
    one.receives(CancelAck(WantId(2)))
    assert second.end() == 0
