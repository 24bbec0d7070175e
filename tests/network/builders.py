# SPDX-License-Identifier: Apache-2.0
"""Engines that have nothing but a network, and strangers that have nothing but a socket."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import zmq

from tandem_connector.contract.keys import ExchangeKey
from tandem_connector.contract.messages import VERSION, Envelope, Fingerprint, Hello, MemoryKind, Message, RankMemory
from tandem_connector.exchange.liveness import LivenessSettings
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.keyring import Keys
from tandem_connector.vllm.keys import CurveKeys
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.events import Event, PeerJoined, Received
from tandem_connector.vllm.network.greeting import Identity
from tandem_connector.vllm.network.settings import NetworkSettings
from tandem_connector.vllm.network.thread import Network

PATIENCE = 20.0
"""Seconds that a test waits for what must come: far more than it takes, for a machine that is busy."""
LOOPBACK = Endpoint("127.0.0.1", 0)
QUICK = NetworkSettings(
    liveness=LivenessSettings(interval=0.05, silent_after=1.0, silent_interval=0.1),
    hello_interval=0.1,
    reconnect=0.02,
    reconnect_longest=0.1,
    key_attempt=0.2,
    linger=0.2,
)
E = TypeVar("E")


def keys() -> CurveKeys:
    return CurveKeys.of(ExchangeKey.generate())


def a_hello(*, version: int = VERSION, ranks: int = 1, **fingerprint: Any) -> Hello:
    common: dict[str, Any] = {
        "model": "m",
        "model_revision": "",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "kv_layout": "NHD",
        "groups": "",
        "block_size": 16,
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "hash_algorithm": "sha256_cbor",
        "hash_seed": "0",
        "vllm_version": "0.32.0",
        "connector_version": "0.1.0",
    }
    rank = RankMemory(agent=b"agent", kind=MemoryKind.DRAM, device=0, bases=(4096,), strides=(64,))
    return Hello(
        version=version,
        fingerprint=Fingerprint(**common | fingerprint),
        blocks=100,
        ranks=(rank,) * ranks,
        answer=False,
    )


@dataclass
class Engine:
    """A network, and all that it has told."""

    name: EngineId
    network: Network
    told: list[Event] = field(default_factory=list)
    woken: threading.Event = field(default_factory=threading.Event)

    def hears(self, kind: type[E], where: Callable[[E], bool] = lambda _: True) -> E:
        """The first event of this kind, when it has come."""

        def found() -> E | None:
            return next((event for event in self.told if isinstance(event, kind) and where(event)), None)

        return self.until(found, f"{self.name} hears no {kind.__name__}")

    def receives(self, message: Message) -> Received:
        return self.hears(Received, lambda event: event.envelope.message == message)

    def until(self, condition: Callable[[], E | bool | None], otherwise: str = "it never came so far") -> E:
        end = time.monotonic() + PATIENCE
        while True:
            self.woken.clear()
            self.told += self.network.take()
            if result := condition():
                return result  # type: ignore[return-value]
            assert time.monotonic() < end, f"{otherwise}: {self.told} {self.network.stages()} {self.network.counts}"
            self.woken.wait(0.05)

    def kinds(self, kind: type[Event]) -> int:
        self.told += self.network.take()
        return sum(isinstance(event, kind) for event in self.told)


@dataclass
class Stage:
    """Engines that are closed when the test ends."""

    keys: CurveKeys | None = None
    engines: list[Engine] = field(default_factory=list)

    def engine(self, name: str, at: Endpoint = LOOPBACK, hello: Hello | None = None, **more: Any) -> Engine:
        woken = threading.Event()
        identity = Identity(EngineId(name), hello or a_hello())
        more = {"keys": self.keys and Keys.only(self.keys), "settings": QUICK} | more
        network = Network(identity, at, wake=woken.set, **more)
        engine = Engine(EngineId(name), network, woken=woken)
        self.engines.append(engine)
        return engine

    def pair(self) -> tuple[Engine, Engine]:
        """Two engines that have joined."""
        one, other = self.engine("one"), self.engine("other")
        introduce(one, other)
        return one, other

    def close(self) -> None:
        for engine in self.engines:
            engine.network.close()


def introduce(*engines: Engine) -> None:
    """Put each into the others' tables, and wait until they have joined."""
    for engine in engines:
        engine.network.set_peers(table(*engines))
    for engine in engines:
        for other in engines:
            if other is not engine:
                engine.hears(PeerJoined, lambda event, peer=other.name: event.peer == peer)  # type: ignore[misc]


def table(*engines: Engine) -> dict[EngineId, Endpoint]:
    return {engine.name: engine.network.endpoint for engine in engines}


@contextmanager
def a_socket_at(
    engine: Engine, own: CurveKeys | None = None, server: CurveKeys | None = None
) -> Iterator["zmq.Socket[bytes]"]:
    """A connection of somebody who is no engine of ours."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.rcvtimeo = round(PATIENCE * 1000)
    socket.sndtimeo = round(PATIENCE * 1000)
    if own is not None and server is not None:
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = server.public, own.public, own.secret
    socket.connect(engine.network.endpoint.url)
    try:
        yield socket
    finally:
        context.destroy(linger=0)


def envelope(sender: str, target: str, message: Message) -> Envelope:
    return Envelope(EngineId(sender), EngineId(target), message)
