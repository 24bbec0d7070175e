# SPDX-License-Identifier: Apache-2.0
"""The network of one engine, as its owner sees it."""

import contextlib
import logging
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from tandem_connector.contract.messages import Message
from tandem_connector.exchange.commands import DropPeer, Send
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.keyring import Keys
from tandem_connector.vllm.network.counts import NetworkCounts
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.events import Event
from tandem_connector.vllm.network.greeting import Identity, Stage
from tandem_connector.vllm.network.inbox import Inbox
from tandem_connector.vllm.network.loop import NetworkCommand, NetworkLoop, SetKeys, SetPeers
from tandem_connector.vllm.network.settings import NetworkSettings
from tandem_connector.vllm.network.sockets import Sockets

_log = logging.getLogger(__name__)


class NetworkError(Exception):
    """The network's thread has ended by an error: this engine can't exchange KV any more, and must be restarted."""


class Network:
    """A running network. Its methods may be called from any thread and return at once, but `close`."""

    def __init__(
        self,
        identity: Identity,
        bind: Endpoint,
        keys: Keys | None,
        wake: Callable[[], None],
        *,
        settings: NetworkSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Listen, and start the thread.

        Args:
            identity: this engine.
            bind: where to listen: the pod's own address.
            keys: the resource's; None allows loopback addresses only.
            wake: called on the network's thread when `take` has something to give; must return at once.
            settings: other numbers than the defaults.
            clock: the one of all times, in seconds.

        Raises:
            ListenError: the address can't be listened on, or may not be without keys.
        """
        self._wake = wake
        self._settings = settings or NetworkSettings()
        self._commands: deque[NetworkCommand] = deque()
        self._inbox = Inbox(self._settings.inbox_bytes)
        self._failure: Exception | None = None
        self._closing = False
        self._signalled = False
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        opened: queue.SimpleQueue[tuple[NetworkLoop, Endpoint] | Exception] = queue.SimpleQueue()

        def run() -> None:
            try:
                sockets = Sockets(bind, keys, self._settings, self._woken)
            except Exception as error:
                opened.put(error)
                return
            loop = NetworkLoop(
                sockets,
                identity,
                self._inbox,
                self._settings,
                clock,
                loopback_only=keys is None,
            )
            opened.put((loop, sockets.endpoint))
            self._run(loop, sockets)

        self._thread = threading.Thread(target=run, name="tandem-network", daemon=True)
        self._thread.start()
        result = opened.get()
        if isinstance(result, Exception):
            self._thread.join()
            self._waker.close()
            self._woken.close()
            raise result
        self._loop, self.endpoint = result
        _log.info("network_listens address=%s keys=%s", self.endpoint, "none" if keys is None else "curve")

    endpoint: Endpoint
    """Where peers reach this engine."""

    @property
    def counts(self) -> NetworkCounts:
        """What was sent and received until now."""
        return self._loop.counts

    def set_peers(self, peers: Mapping[EngineId, Endpoint], kept: Iterable[EngineId] = ()) -> None:
        """Speak with these engines and nobody else, from now on.

        Connections to others are closed, without an event: the caller knows what became of them. Those that are there
        already are left alone. `PeerJoined` or `PeerRefused` tells of each new one.

        Args:
            peers: where each of them listens.
            kept: engines that are not to be connected to, and whose connections stay if they have joined.
        """
        self._order(SetPeers(dict(peers), frozenset(kept)))

    def set_keys(self, keys: Keys) -> None:
        """Use these from now on. What is on its way is lost when another key is listened with, as by a connection that breaks."""
        self._order(SetKeys(keys))

    def send(self, peer: EngineId, message: Message) -> None:
        """Send a message to a peer that has joined. It is lost if there is no connection, or its queue is full."""
        self._order(Send(peer, message))

    def drop(self, peer: EngineId, why: str) -> None:
        """Close the connection to a peer that broke the protocol, for as long as the incarnation lives.

        `PeerSilent` is told of it, if it had joined; `PeerBack` never will be.
        """
        self._order(DropPeer(peer, why))

    def set_waiting_tokens(self, tokens: int) -> None:
        """How many prompt tokens wait to be computed here; told to peers with the next Ping or Pong."""
        self._loop.waiting_tokens = tokens

    def part(self) -> None:
        """The owner acts on no message any more, and has nothing in flight: decline what peers ask until the end."""
        self._loop.parting = True

    def waiting_tokens(self, peer: EngineId) -> int | None:
        """How many prompt tokens the peer last said to have waiting; None while it hasn't said."""
        known = self._loop.peers.get(peer)
        return known.waiting_tokens if known is not None else None

    def stages(self) -> dict[EngineId, Stage]:
        """How far it has come with each engine of the table."""
        return {peer: known.stage for peer, known in self._loop.peers.copy().items()}

    @property
    def refused_peers(self) -> int:
        """Engines of the table whose Hello didn't fit, or to which there may be no connection."""
        return sum(stage is Stage.REFUSED for stage in self.stages().values())

    def take(self) -> list[Event]:
        """What happened since the last call, oldest first.

        Raises:
            NetworkError: the network's thread has failed.
        """
        if self._failure is not None:
            raise NetworkError(
                f"the exchange's network failed: {self._failure!r}; restart the engine"
            ) from self._failure
        return self._inbox.take()

    def close(self, patience: float = 2.0) -> bool:
        """Send what was ordered, as far as that takes no waiting, and end.

        Args:
            patience: seconds to wait for the thread.

        Returns:
            Whether the thread has ended.
        """
        self._closing = True
        self._signal()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _order(self, command: NetworkCommand) -> None:
        self._commands.append(command)
        if not self._signalled:
            self._signalled = True
            self._signal()

    def _signal(self) -> None:
        # A full buffer has woken the thread already; a closed one needs no waking.
        with contextlib.suppress(BlockingIOError, OSError):
            self._waker.send(b"\0")

    def _run(self, loop: NetworkLoop, sockets: Sockets) -> None:
        try:
            while not self._closing:
                loop.turn()
                self._carry_out(loop)
                if self._inbox.has_news():
                    self._wake()
            self._carry_out(loop)
        except Exception as error:
            _log.exception("network_failed")
            self._failure = error
            self._wake()
        finally:
            sockets.close()
            self._waker.close()
            self._woken.close()

    def _carry_out(self, loop: NetworkLoop) -> None:
        # In this order: what is ordered after the flag is cleared signals again.
        self._signalled = False
        while self._commands:
            loop.handle(self._commands.popleft())
