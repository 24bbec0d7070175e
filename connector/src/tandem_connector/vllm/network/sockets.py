# SPDX-License-Identifier: Apache-2.0
"""All of ZeroMQ: one socket that listens, one connected to each peer, and who may connect. Used on one thread only.

Options and authentication (ZAP) are as in libzmq's zmq_setsockopt(3), zmq_curve(7) and rfc.zeromq.org/spec/27.
"""

import contextlib
import math
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils import z85

from tandem_connector.contract.messages import MAX_BYTES
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.keyring import Keys
from tandem_connector.vllm.keys import CurveKeys
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.settings import NetworkSettings

_ZAP_URL: Final = "inproc://zeromq.zap.01"
_ZAP_DOMAIN: Final = b"tandem"
_BATCH: Final = 256
"""Most messages read from one socket before anything else is looked at."""
_LISTENS_ANEW_WITHIN: Final = 5.0
_TRIED_EVERY: Final = 0.005
"""Seconds. libzmq gives an address back on a thread of its own, some milliseconds after it was told to."""

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


@dataclass(slots=True)
class _Connection:
    """To a peer, whether it stands or not."""

    dealer: zmq.Socket[bytes]
    endpoint: Endpoint
    keys: CurveKeys | None
    awaited: bool = False


class Sockets:
    """The sockets of one engine."""

    def __init__(self, bind: Endpoint, keys: Keys | None, settings: NetworkSettings, waker: socket.socket) -> None:
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
        self._peers: dict[EngineId, _Connection] = {}
        self._names: dict[zmq.Socket[bytes], EngineId] = {}
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, settings.sockets)
        self._poller = zmq.Poller()
        self._poller.register(waker, zmq.POLLIN)
        self._zap = self._authenticate() if keys is not None else None
        self._listener = self._listen(bind)
        port = self._listener.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]
        self.endpoint = Endpoint(bind.host, int(port))
        """Where the engine listens: the port that was taken, if none was given."""

    def connect(self, peer: EngineId, endpoint: Endpoint) -> None:
        """Begin to connect; it goes on until `disconnect`, whenever the peer is there.

        Raises:
            NoSocketError: there are too many sockets, or this process has too many open files.
        """
        self._open(peer, endpoint, self._keys.listening if self._keys is not None else None)

    def disconnect(self, peer: EngineId) -> None:
        """Close the connection to the peer; what was sent may still go out for a short time."""
        if (connection := self._peers.pop(peer, None)) is not None:
            del self._names[connection.dealer]
            self._poller.unregister(connection.dealer)
            connection.dealer.close(self._linger)

    def await_connection(self, peer: EngineId, *, wanted: bool) -> None:
        """Whether `poll` is to say when something can be sent to the peer."""
        if (connection := self._peers.get(peer)) is not None:
            connection.awaited = wanted
            self._poller.modify(connection.dealer, zmq.POLLIN | zmq.POLLOUT if wanted else zmq.POLLIN)

    # -- keys -----------------------------------------------------------------------------------------------------

    def set_keys(self, keys: Keys) -> None:
        """Listen with, and connect by, these from now on. Connections by a key that isn't among them are made anew.

        Raises:
            ListenError: the address was taken meanwhile.
        """
        before, self._keys = self._keys, keys
        if before is None or before.listening != keys.listening:
            self._listen_anew()
        for peer in [peer for peer, connection in self._peers.items() if connection.keys not in keys.known]:
            self.try_next_key(peer)

    @property
    def has_several_keys(self) -> bool:
        """Whether one takes the place of another just now."""
        return self._keys is not None and len(self._keys.known) > 1

    def unconnected(self) -> frozenset[EngineId]:
        """Peers to which nothing can be sent."""
        return frozenset(peer for peer, connection in self._peers.items() if not connection.dealer.poll(0, zmq.POLLOUT))

    def try_next_key(self, peer: EngineId) -> None:
        """Connect to the peer by the next of the known keys. Without a socket to be had it stays as it is."""
        former = self._peers[peer]
        assert self._keys is not None  # noqa: S101
        with contextlib.suppress(NoSocketError):
            self._open(peer, former.endpoint, self._keys.after(former.keys))
            del self._names[former.dealer]
            self._poller.unregister(former.dealer)
            former.dealer.close(self._linger)
            self.await_connection(peer, wanted=former.awaited)

    def _open(self, peer: EngineId, endpoint: Endpoint, keys: CurveKeys | None) -> None:
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
        if keys is not None:
            _lock(dealer, keys)
            dealer.setsockopt(zmq.CURVE_SERVERKEY, keys.public)
        dealer.connect(endpoint.url)
        self._peers[peer] = _Connection(dealer, endpoint, keys)
        self._names[dealer] = peer
        self._poller.register(dealer, zmq.POLLIN)

    # -- messages -------------------------------------------------------------------------------------------------

    def send(self, peer: EngineId, data: bytes) -> bool:
        """Queue a message for the peer; False if it isn't connected, or its queue is full."""
        connection = self._peers.get(peer)
        if connection is None:
            return False
        try:
            connection.dealer.send(data, zmq.NOBLOCK)
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
                connection = self._peers.get(peer)
                if connection is None:
                    return
                yield b"".join(connection.dealer.recv_multipart(zmq.NOBLOCK))

    def close(self) -> None:
        """Close everything; waits a short time for what was sent to go out."""
        for connection in self._peers.values():
            connection.dealer.close(self._linger)
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
            _lock(listener, self._keys.listening)
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

    def _listen_anew(self) -> None:
        """With another key. The connections that others have made end, and they make them anew."""
        assert self._keys is not None  # noqa: S101
        url = self.endpoint.url
        self._listener.unbind(url)
        _lock(self._listener, self._keys.listening)
        for _ in range(round(_LISTENS_ANEW_WITHIN / _TRIED_EVERY)):
            try:
                self._listener.bind(url)
            except zmq.ZMQError as error:
                why = error.strerror
                time.sleep(_TRIED_EVERY)
            else:
                return
        raise ListenError(f"the exchange can't listen on {self.endpoint} with another key: {why}")

    def _prepare(self, socket_: zmq.Socket[bytes], endpoint: Endpoint) -> None:
        socket_.setsockopt(zmq.IPV6, endpoint.is_ipv6)
        socket_.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
        socket_.setsockopt(zmq.RCVHWM, self._settings.receive_queue)

    def _authenticate(self) -> zmq.Socket[bytes]:
        zap = self._context.socket(zmq.REP)
        zap.bind(_ZAP_URL)
        self._poller.register(zap, zmq.POLLIN)
        return zap

    def _judge(self) -> None:
        """Answer libzmq's question whether a client that proved to have a key may connect."""
        assert self._zap is not None and self._keys is not None  # noqa: S101, PT018
        version, request, _domain, _address, _identity, mechanism, *credentials = self._zap.recv_multipart()
        allowed = mechanism == b"CURVE" and credentials == [z85.decode(self._keys.listening.public)]
        self.denied += not allowed
        status = (b"200", b"OK") if allowed else (b"400", b"not the resource's key")
        self._zap.send_multipart([version, request, *status, b"", b""])


def _lock(socket_: zmq.Socket[bytes], keys: CurveKeys) -> None:
    socket_.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
    socket_.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
