# SPDX-License-Identifier: Apache-2.0
"""All of ZeroMQ: one socket that listens, one connected to each peer, and who may connect. Used on one thread only.

Options and authentication (ZAP) are as in libzmq's zmq_setsockopt(3), zmq_curve(7) and rfc.zeromq.org/spec/27.
"""

import contextlib
import math
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils import z85

from tandem_connector.contract.messages import MAX_BYTES
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.keys import CurveKeys
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.settings import NetworkSettings

_ZAP_URL: Final = "inproc://zeromq.zap.01"
_ZAP_DOMAIN: Final = b"tandem"
_BATCH: Final = 256
"""Most messages read from one socket before anything else is looked at."""

ConnectionId = bytes
"""Names a peer's connection to the listening socket, while it lasts."""


class ListenError(Exception):
    """The address can't be listened on; the text says why and what to do."""


class NoSocketError(Exception):
    """There can be no connection to one more peer; the text says why."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What can be done without waiting."""

    listener: bool
    readable: tuple[EngineId, ...]
    """Peers whose connection has an answer."""
    writable: tuple[EngineId, ...]
    """Peers whose connection was waited for, and stands now."""


class Sockets:
    """The sockets of one engine."""

    def __init__(self, bind: Endpoint, keys: CurveKeys | None, settings: NetworkSettings, waker: socket.socket) -> None:
        """Listen.

        Args:
            bind: where.
            keys: the resource's; without them only processes of this machine may connect, and all of them may.
            settings: bounds and times.
            waker: `poll` also returns when this can be read.

        Raises:
            ListenError: without keys on an address that others can reach, or the address is taken, or not this machine's.
        """
        if keys is None and not bind.is_loopback:
            raise ListenError(
                f"the exchange may not listen on {bind} without keys: anybody could write into this engine's KV cache; "
                "mount the resource's key, or listen on 127.0.0.1"
            )
        self._bind = bind
        self._keys = keys
        self._settings = settings
        self._waker = waker
        self._linger = round(settings.linger * 1000)
        self.denied = 0
        """Connections that were refused because they lack the key."""
        self._peers: dict[EngineId, zmq.Socket[bytes]] = {}
        self._names: dict[zmq.Socket[bytes], EngineId] = {}
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, settings.sockets)
        self._poller = zmq.Poller()
        self._poller.register(waker, zmq.POLLIN)
        self._zap = self._authenticate() if keys is not None else None
        self._listener = self._listen(bind)

    @property
    def endpoint(self) -> Endpoint:
        """Where the engine listens: the port that was taken, if none was given."""
        url = self._listener.getsockopt_string(zmq.LAST_ENDPOINT)
        port = url.rpartition(":")[2]
        return Endpoint(self._bind.host, int(port))

    def connect(self, peer: EngineId, endpoint: Endpoint) -> None:
        """Begin to connect; it goes on until `disconnect`, whenever the peer is there.

        Raises:
            NoSocketError: there are too many sockets, or this process has too many open files.
        """
        try:
            dealer = self._context.socket(zmq.DEALER)
        except zmq.ZMQError as error:
            raise NoSocketError(f"no socket is left: {error.strerror}") from error
        self._prepare(dealer, endpoint)
        # Nothing is queued for a peer that isn't there: it would be late, and for another incarnation.
        dealer.setsockopt(zmq.IMMEDIATE, 1)
        dealer.setsockopt(zmq.SNDHWM, self._settings.send_queue)
        dealer.setsockopt(zmq.TCP_MAXRT, round(self._settings.dead_connection * 1000))
        dealer.setsockopt(zmq.CONNECT_TIMEOUT, round(self._settings.dead_connection * 1000))
        dealer.setsockopt(zmq.RECONNECT_IVL, round(self._settings.reconnect * 1000))
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, round(self._settings.reconnect_longest * 1000))
        if self._keys is not None:
            dealer.setsockopt(zmq.CURVE_SERVERKEY, self._keys.public)
        dealer.connect(endpoint.url)
        self._peers[peer] = dealer
        self._names[dealer] = peer
        self._poller.register(dealer, zmq.POLLIN)

    def disconnect(self, peer: EngineId) -> None:
        """Close the connection to the peer; what was sent may still go out for a short time."""
        if (dealer := self._peers.pop(peer, None)) is not None:
            del self._names[dealer]
            self._poller.unregister(dealer)
            dealer.close(self._linger)

    def await_connection(self, peer: EngineId, *, wanted: bool) -> None:
        """Whether `poll` is to say when something can be sent to the peer."""
        if (dealer := self._peers.get(peer)) is not None:
            self._poller.modify(dealer, zmq.POLLIN | zmq.POLLOUT if wanted else zmq.POLLIN)

    def send(self, peer: EngineId, data: bytes) -> bool:
        """Queue a message for the peer; False if it isn't connected, or its queue is full."""
        dealer = self._peers.get(peer)
        if dealer is None:
            return False
        try:
            dealer.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def reply(self, connection: ConnectionId, data: bytes) -> None:
        """Answer on a connection that was made to this engine, if it is still there."""
        with contextlib.suppress(zmq.Again):
            self._listener.send_multipart([connection, data], zmq.NOBLOCK)

    def poll(self, timeout: float | None) -> Ready:
        """Wait until something can be done.

        Args:
            timeout: seconds; None for as long as it takes.
        """
        events = self._poller.poll(None if timeout is None else max(0, math.ceil(timeout * 1000)))
        listener, readable, writable = False, [], []
        for which, mask in events:
            if which is self._listener:
                listener = True
            elif which is self._zap:
                self._judge()
            elif which in self._names:
                if mask & zmq.POLLIN:
                    readable.append(self._names[which])
                if mask & zmq.POLLOUT:
                    writable.append(self._names[which])
            else:
                with contextlib.suppress(BlockingIOError):
                    self._waker.recv(_BATCH)
        return Ready(listener, tuple(readable), tuple(writable))

    def messages(self) -> Iterator[tuple[ConnectionId, bytes | None]]:
        """What has come, up to a bound, and on which connection; None in place of what has more than one part."""
        with contextlib.suppress(zmq.Again):
            for _ in range(_BATCH):
                connection, *parts = self._listener.recv_multipart(zmq.NOBLOCK)
                yield connection, parts[0] if len(parts) == 1 else None

    def answers(self, peer: EngineId) -> Iterator[bytes]:
        """What came back on the connection to the peer. Ends when the peer is disconnected."""
        with contextlib.suppress(zmq.Again):
            for _ in range(_BATCH):
                dealer = self._peers.get(peer)
                if dealer is None:
                    return
                yield b"".join(dealer.recv_multipart(zmq.NOBLOCK))

    def close(self) -> None:
        """Close everything; waits a short time for what was sent to go out."""
        for dealer in self._peers.values():
            dealer.close(self._linger)
        self._listener.close(self._linger)
        if self._zap is not None:
            self._zap.close(linger=0)
        self._context.term()

    def _listen(self, bind: Endpoint) -> zmq.Socket[bytes]:
        listener = self._context.socket(zmq.ROUTER)
        self._prepare(listener, bind)
        listener.setsockopt(zmq.TCP_KEEPALIVE, 1)  # it hardly ever sends, so it wouldn't notice a dead connection
        listener.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 60)
        listener.setsockopt(zmq.SNDHWM, self._settings.receive_queue)
        if self._keys is not None:
            listener.setsockopt(zmq.CURVE_SERVER, 1)
            listener.setsockopt(zmq.ZAP_DOMAIN, _ZAP_DOMAIN)
            listener.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        try:
            listener.bind(bind.url)
        except zmq.ZMQError as error:
            listener.close(linger=0)
            self._context.destroy(linger=0)
            raise ListenError(
                f"the exchange can't listen on {bind}: {error.strerror}; the address must be the pod's own, the port free"
            ) from error
        self._poller.register(listener, zmq.POLLIN)
        return listener

    def _prepare(self, socket_: zmq.Socket[bytes], endpoint: Endpoint) -> None:
        socket_.setsockopt(zmq.IPV6, endpoint.is_ipv6)
        socket_.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
        socket_.setsockopt(zmq.RCVHWM, self._settings.receive_queue)
        if self._keys is not None:
            socket_.setsockopt(zmq.CURVE_PUBLICKEY, self._keys.public)
            socket_.setsockopt(zmq.CURVE_SECRETKEY, self._keys.secret)

    def _authenticate(self) -> zmq.Socket[bytes]:
        zap = self._context.socket(zmq.REP)
        zap.bind(_ZAP_URL)
        self._poller.register(zap, zmq.POLLIN)
        return zap

    def _judge(self) -> None:
        """Answer libzmq's question whether a client that proved to have a key may connect."""
        assert self._zap is not None and self._keys is not None  # noqa: S101, PT018
        version, request, _domain, _address, _identity, mechanism, *credentials = self._zap.recv_multipart()
        allowed = mechanism == b"CURVE" and credentials == [z85.decode(self._keys.public)]
        self.denied += not allowed
        status = (b"200", b"OK") if allowed else (b"400", b"not the resource's key")
        self._zap.send_multipart([version, request, *status, b"", b""])
