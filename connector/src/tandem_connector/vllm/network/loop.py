# SPDX-License-Identifier: Apache-2.0
"""One turn of the network after another: carry out commands, read, greet, ping. Runs on the network's thread only."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tandem_connector.contract.messages import (
    Cancel,
    CancelAck,
    Envelope,
    Gone,
    Hello,
    Message,
    MessageError,
    Missing,
    MissingReason,
    Ping,
    Pong,
    Want,
    decode,
    encode,
)
from tandem_connector.exchange.commands import DropPeer, Send
from tandem_connector.exchange.liveness import Liveness
from tandem_connector.exchange.timers import Timers
from tandem_connector.exchange.types import EngineId, Seconds, WantId
from tandem_connector.vllm.keyring import Keys
from tandem_connector.vllm.network.counts import NetworkCounts
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.events import (
    PeerBack,
    PeerJoined,
    PeerRefused,
    PeerReplaced,
    PeerSilent,
    Received,
)
from tandem_connector.vllm.network.greeting import Identity, Stage, refusal
from tandem_connector.vllm.network.inbox import Inbox
from tandem_connector.vllm.network.settings import NetworkSettings
from tandem_connector.vllm.network.sockets import ConnectionId, NoSocketError, Sockets
from tandem_connector.vllm.network.speakers import Speakers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SetPeers:
    """These are the engines to speak with, and nobody else."""

    peers: Mapping[EngineId, Endpoint]
    kept: frozenset[EngineId]
    """Not to be connected to; where there is a connection, it stays."""


@dataclass(frozen=True, slots=True)
class SetKeys:
    """These are the keys to use."""

    keys: Keys


NetworkCommand: TypeAlias = SetPeers | SetKeys | Send | DropPeer


@dataclass(slots=True)
class _Peer:
    endpoint: Endpoint
    stage: Stage = Stage.GREETING
    greeted: bool = False
    """This engine's Hello was sent: what is sent now comes after it."""
    hello: Hello | None = None
    """The peer's."""
    waiting_tokens: int | None = None
    """What it last said of its queue."""


class NetworkLoop:
    """The network, without its thread."""

    def __init__(
        self,
        sockets: Sockets,
        identity: Identity,
        inbox: Inbox,
        settings: NetworkSettings,
        clock: Callable[[], float],
        *,
        loopback_only: bool,
    ) -> None:
        self.counts = NetworkCounts()
        self.peers: dict[EngineId, _Peer] = {}
        self.waiting_tokens = 0
        self.parting = False
        """The owner has done with the exchange, and its process ends: peers hear so of what they still ask."""
        self._sockets = sockets
        self._engine = identity.engine
        self._hello = identity.hello
        self._inbox = inbox
        self._settings = settings
        self._clock = clock
        self._loopback_only = loopback_only
        self._liveness = Liveness(settings.liveness)
        self._hellos: Timers[EngineId] = Timers()
        self._speakers = Speakers()
        self._key_attempt = self._next_attempt(self._now())
        """When to try other keys; None with a single one."""
        self._unconnected: frozenset[EngineId] = frozenset()
        """Peers that were not reached by the last time."""
        self._turned = self._now()
        """When the last turn's wait ended."""
        self._judge_from = self._turned
        """Before this time nobody is called silent: this process was stopped, and hasn't read what came meanwhile."""

    def turn(self) -> None:
        """Wait for something to do, and do it, except for commands."""
        timeout = self._timeout()
        ready = self._sockets.poll(timeout)
        now = self._now()
        if timeout is not None and now > self._turned + timeout + self._settings.stall:
            self._judge_from = Seconds(now + self._settings.stall_grace)
        self._turned = now
        if ready.listener:
            for connection, data in self._sockets.messages():
                self._read(connection, data, now)
        for peer in ready.readable:
            for data in self._sockets.answers(peer):
                self._answered(peer, data)
        for peer in ready.writable:
            self._greet(peer, now)
        self.counts.denied = self._sockets.denied
        self._tick(now)

    def handle(self, command: NetworkCommand) -> None:
        """Carry out a command of the owner."""
        match command:
            case SetPeers(peers, kept):
                self._set_peers(peers, kept)
            case SetKeys(keys):
                self._sockets.set_keys(keys)
                self._key_attempt = self._next_attempt(self._now())
            case Send(peer, message):
                self._send(peer, message)
            case DropPeer(peer, why):
                self._drop(peer, why)

    # -- peers ----------------------------------------------------------------------------------------------------

    def _set_peers(self, wanted: Mapping[EngineId, Endpoint], kept: frozenset[EngineId]) -> None:
        has_met = {peer for peer in kept - wanted.keys() if peer in self.peers and self.peers[peer].stage.has_met}
        ends = {peer for peer, known in self.peers.items() if wanted.get(peer) != known.endpoint}
        for peer in ends - has_met:
            self._disconnect(peer)
            del self.peers[peer]
        for peer, endpoint in wanted.items():
            if peer in self.peers or peer == self._engine:
                continue
            self.peers[peer] = _Peer(endpoint)
            if self._loopback_only and not endpoint.is_loopback:
                self._refuse(peer, f"{endpoint} is on another machine, and without keys only loopback is allowed")
                continue
            try:
                self._sockets.connect(peer, endpoint)
            except NoSocketError as error:
                self._refuse(peer, str(error))
                continue
            self._greet(peer, self._now())

    def _greet(self, peer: EngineId, now: Seconds) -> bool:
        """Say Hello now, or as soon as there is a connection; again, until the peer's own has come."""
        known = self.peers[peer]
        known.greeted = self._put(peer, msgspec.structs.replace(self._hello, answer=known.hello is None))
        self._sockets.await_connection(peer, wanted=not known.greeted)
        if known.greeted and known.hello is None:
            self._hellos.set(peer, Seconds(now + self._settings.hello_interval))
        self._join(peer, now)
        return known.greeted

    def _met(self, peer: EngineId, hello: Hello, now: Seconds) -> None:
        known = self.peers[peer]
        if known.hello is None:
            known.hello = hello
            self._hellos.cancel(peer)
            if (why := refusal(self._hello, hello)) is not None:
                self._refuse(peer, why)
        if hello.answer:
            self._greet(peer, now)
        else:
            self._join(peer, now)

    def _join(self, peer: EngineId, now: Seconds) -> None:
        """Both have said Hello, so nothing that is sent from now on comes to the peer before this engine's Hello."""
        known = self.peers[peer]
        if known.stage is Stage.GREETING and known.greeted and known.hello is not None:
            known.stage = Stage.JOINED
            self._liveness.connected(peer, now)
            _log.info("peer_joined peer=%s address=%s", peer, known.endpoint)
            self._inbox.put(PeerJoined(peer, known.hello))

    def _refuse(self, peer: EngineId, why: str) -> None:
        _log.warning("peer_refused peer=%s address=%s why=%s", peer, self.peers[peer].endpoint, why)
        # The connection stays, to tell the peer what it is refused for: its owner wants to know, too.
        self.peers[peer].stage = Stage.REFUSED
        self._inbox.put(PeerRefused(peer, why))

    def _drop(self, peer: EngineId, why: str) -> None:
        known = self.peers.get(peer)
        if known is None or known.stage.is_final:
            return
        _log.warning("peer_dropped peer=%s address=%s why=%s", peer, known.endpoint, why)
        had_joined = known.stage is Stage.JOINED
        self._end(peer, Stage.DROPPED)
        if had_joined:
            self._inbox.put(PeerSilent(peer))

    def _end(self, peer: EngineId, stage: Stage) -> None:
        self.peers[peer].stage = stage
        self._disconnect(peer)

    def _disconnect(self, peer: EngineId) -> None:
        self._sockets.disconnect(peer)
        self._liveness.forget(peer)
        self._hellos.cancel(peer)

    # -- messages -------------------------------------------------------------------------------------------------

    def _put(self, peer: EngineId, message: Message) -> bool:
        sent = self._sockets.send(peer, encode(Envelope(self._engine, peer, message)))
        self.counts.sent += sent
        return sent

    def _send(self, peer: EngineId, message: Message) -> None:
        known = self.peers.get(peer)
        can = known is not None and known.stage is Stage.JOINED and (known.greeted or self._greet(peer, self._now()))
        if not (can and self._put(peer, message)):
            self.counts.unsent += 1

    def _read(self, connection: ConnectionId, data: bytes | None, now: Seconds) -> None:
        self.counts.received += 1
        try:
            if data is None:
                raise MessageError("a message in several parts")
            envelope = decode(data)
        except MessageError as error:
            self._blame(connection, error)
            return
        if envelope.target != self._engine:
            self.counts.misaddressed += 1
            if not isinstance(envelope.message, Gone):
                gone = Envelope(self._engine, envelope.sender, Gone(envelope.target))
                self._sockets.reply(connection, encode(gone))
            return
        known = self.peers.get(envelope.sender)
        if known is not None and known.stage is Stage.REFUSED and isinstance(envelope.message, Hello):
            self._met(envelope.sender, envelope.message, now)
            return
        if known is None or known.stage.is_final:
            self.counts.strangers += 1
            return
        self._speakers.spoke(connection, envelope.sender)
        if self._liveness.heard(envelope.sender, now):
            self._inbox.put(PeerBack(envelope.sender))
        self._understand(known, envelope, len(data), now)

    def _understand(self, known: _Peer, envelope: Envelope, size: int, now: Seconds) -> None:
        peer = envelope.sender
        match envelope.message:
            case Hello() as hello:
                self._met(peer, hello, now)
            case _ if known.stage is not Stage.JOINED:
                self.counts.strangers += 1
            case Gone():
                self.counts.unexpected += 1
            case Pong(waiting_tokens):
                known.waiting_tokens = waiting_tokens
            case Ping() as ping:
                known.waiting_tokens = ping.waiting_tokens
                self._send(peer, Pong(self.waiting_tokens))
                if ping.open or ping.cancelling or ping.oldest:
                    self._deliver(envelope, size, now)
            case _:
                self._deliver(envelope, size, now)

    def _deliver(self, envelope: Envelope, size: int, now: Seconds) -> None:
        if self.parting:
            self._decline(envelope)
        elif not self._inbox.offer(Received(envelope, now), size):
            self.counts.overflowed += 1

    def _decline(self, envelope: Envelope) -> None:
        """Nobody acts on messages any more, and nothing is in flight. What a ping believes open may have been written."""
        peer = envelope.sender
        match envelope.message:
            case Want() as want:
                self._send(peer, Missing(want.want, None, MissingReason.SHUTDOWN))
            case Cancel(want_id):
                self._send(peer, CancelAck(want_id))
            case Ping() as ping:
                for want_id in ping.cancelling:
                    self._send(peer, CancelAck(want_id))

    def _answered(self, peer: EngineId, data: bytes) -> None:
        """Something came back on the connection to the peer: only that another engine is there can."""
        self.counts.received += 1
        try:
            envelope = decode(data)
        except MessageError:
            self.counts.garbage += 1
            return
        if envelope.target == self._engine != envelope.sender != peer and envelope.message == Gone(peer):
            _log.info("peer_replaced peer=%s by=%s address=%s", peer, envelope.sender, self.peers[peer].endpoint)
            self._end(peer, Stage.REPLACED)
            self._inbox.put(PeerReplaced(peer, envelope.sender))
        else:
            self.counts.unexpected += 1

    def _blame(self, connection: ConnectionId, error: MessageError) -> None:
        self.counts.garbage += 1
        if (peer := self._speakers.on(connection)) is not None:
            self._drop(peer, f"sent no message: {error}")

    # -- time -----------------------------------------------------------------------------------------------------

    def _now(self) -> Seconds:
        return Seconds(self._clock())

    def _tick(self, now: Seconds) -> None:
        for peer in self._hellos.pop_due(now):
            self._greet(peer, now)
        if self._key_attempt is not None and now >= self._key_attempt:
            self._try_keys()
            self._key_attempt = self._next_attempt(now)
        if now < self._judge_from:
            return
        change = self._liveness.tick(now)
        for peer in change.silent:
            _log.info("peer_silent peer=%s address=%s", peer, self.peers[peer].endpoint)
            self._inbox.put(PeerSilent(peer))
        for peer in change.ping:
            self._send(peer, Ping((), (), WantId(0), self.waiting_tokens))

    def _try_keys(self) -> None:
        """Who can't be reached may listen with another key than the one that was tried, all the time since the last look."""
        unconnected = self._sockets.unconnected()
        tried = unconnected & self._unconnected
        for peer in tried:
            self._sockets.try_next_key(peer)
        self._unconnected = unconnected - tried

    def _next_attempt(self, now: Seconds) -> Seconds | None:
        return Seconds(now + self._settings.key_attempt) if self._sockets.has_several_keys else None

    def _timeout(self) -> float | None:
        """Seconds until something is due, unless something comes."""
        judge = self._liveness.next_due()
        due = [self._hellos.next_due(), self._key_attempt, None if judge is None else max(judge, self._judge_from)]
        earliest = min((at for at in due if at is not None), default=None)
        return None if earliest is None else max(0.0, earliest - self._now())
