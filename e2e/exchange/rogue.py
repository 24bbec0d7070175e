# SPDX-License-Identifier: Apache-2.0
"""Somebody at an engine's side channel who has the resource's key, is in its peer table, and means no good."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import zmq

from e2e.exchange.engine import Engine
from tandem_connector.contract.messages import Envelope, Hello, Message, decode, encode
from tandem_connector.contract.peers import Address, Parallelism, Peer
from tandem_connector.contract.types import EngineId, EngineState, Role
from tandem_connector.vllm.keys import CurveKeys

_PATIENCE_MS = 30_000


class Rogue:
    """One incarnation of an engine that is none. It speaks as it likes, and listens to nothing but the first Hello."""

    def __init__(self, name: str, context: "zmq.Context[zmq.Socket[bytes]]", victim: Engine, keys: CurveKeys) -> None:
        self.id = EngineId(f"{name}-1")
        self._victim = victim
        self._listener = context.socket(zmq.ROUTER)
        self._listener.curve_server = True
        self._listener.curve_publickey, self._listener.curve_secretkey = keys.public, keys.secret
        self._port = self._listener.bind_to_random_port("tcp://127.0.0.1")
        self._speaker = a_connection(context, victim, keys, keys)

    def as_peer(self) -> Peer:
        """What the victim's table says of it. It is starting: it is connected to, and asked nothing."""
        return Peer(
            engine=self.id,
            pod=self.id,
            role=Role.PREFILL,
            state=EngineState.STARTING,
            address=Address(host="127.0.0.1", http_port=1, side_channel_port=self._port),
            parallelism=Parallelism(tensor=1),
            revision="same",
        )

    def join(self, blocks: int) -> Hello:
        """Wait for the victim's Hello, and answer as an engine of its kind whose pool has so many blocks; its own Hello."""
        assert self._listener.poll(_PATIENCE_MS), "the victim says no Hello"
        theirs = decode(self._listener.recv_multipart()[1]).message
        assert isinstance(theirs, Hello)
        memory = tuple(
            msgspec.structs.replace(rank, agent=b"no agent", bases=(4096,) * len(rank.bases)) for rank in theirs.ranks
        )
        own = msgspec.structs.replace(theirs, blocks=blocks, ranks=memory, answer=False)
        self.say(own)
        # Its connection may come later than the victim's table: what follows must not come before its Hello.
        time.sleep(0.3)
        return own

    def say(self, *messages: Message, sender: EngineId | None = None, target: EngineId | None = None) -> None:
        """Say something, in its own name and to the victim unless told otherwise."""
        for message in messages:
            envelope = Envelope(sender or self.id, target or self._victim.id, message)
            self.put(encode(envelope))

    def put(self, *frames: bytes) -> None:
        """Send anything at all. It is lost when the victim reads nothing more, or has closed the connection."""
        try:
            self._speaker.send_multipart(frames)
        except zmq.Again:
            return


@contextmanager
def rogues(victim: Engine, keys: CurveKeys, names: Sequence[str]) -> Iterator[dict[str, Rogue]]:
    """One for each name; they are gone when the context ends."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        yield {name: Rogue(name, context, victim, keys) for name in names}
    finally:
        context.destroy(linger=0)


def a_connection(
    context: "zmq.Context[zmq.Socket[bytes]]", victim: Engine, own: CurveKeys, server: CurveKeys
) -> "zmq.Socket[bytes]":
    """A connection to an engine's side channel by somebody with the keys `own`, who takes its key for `server`'s."""
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.sndtimeo = 5_000
    # What can't be sent at once is not queued.
    socket.immediate = True
    socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = server.public, own.public, own.secret
    address = victim.as_peer().address
    socket.connect(f"tcp://{address.host}:{address.side_channel_port}")
    return socket
