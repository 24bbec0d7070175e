# SPDX-License-Identifier: Apache-2.0
"""The threads beside the engine's own, and what they have to tell it.

Each of them puts its news where the scheduler's side takes them, and makes the engine look: from its sleep between two
empty steps by the doorbell, from idleness by vLLM's own input queue.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final, TypeAlias

from tandem_connector.asking.asking import Asking
from tandem_connector.asking.settings import AskingSettings
from tandem_connector.asking.types import Answer, Arrival, CallFailed, CallId
from tandem_connector.asking.wire import prefill_call
from tandem_connector.contract.messages import Hello, Message
from tandem_connector.contract.peers import Drain
from tandem_connector.contract.prefill import Seal
from tandem_connector.contract.types import EngineId, Role, pod_of, rank_of
from tandem_connector.exchange.liveness import LivenessSettings
from tandem_connector.exchange.types import Seconds
from tandem_connector.vllm.alarm import Alarm
from tandem_connector.vllm.asker import Asker, Decision
from tandem_connector.vllm.doorbell import Doorbell, Ring
from tandem_connector.vllm.drain_mark import DrainMark, mark_of
from tandem_connector.vllm.draining import DrainOrder
from tandem_connector.vllm.engine_process import EngineProcess
from tandem_connector.vllm.incarnations import Incarnations
from tandem_connector.vllm.key_file import KeyFile
from tandem_connector.vllm.keyring import Keyring, Keys
from tandem_connector.vllm.network.endpoint import Endpoint
from tandem_connector.vllm.network.events import Event, PeerReplaced
from tandem_connector.vllm.network.greeting import Identity
from tandem_connector.vllm.network.settings import NetworkSettings
from tandem_connector.vllm.network.thread import Network
from tandem_connector.vllm.peer_counts import PeerPod
from tandem_connector.vllm.peer_table import TableChange, TableCounts
from tandem_connector.vllm.peers_file import PeersFile
from tandem_connector.vllm.prefill import HttpSettings, PrefillCaller
from tandem_connector.vllm.settings import ConnectorSettings

_log = logging.getLogger(__name__)
_LOAD_EVERY: Final = 0.5
"""Seconds after which a peer's word on its queue counts as new: it says it about as often."""


@dataclass(frozen=True, slots=True)
class PeerParted:
    """The peer table doesn't name this engine any more, and doesn't say that its pod is gone."""

    peer: EngineId


@dataclass(frozen=True, slots=True)
class PeerReturned:
    """The peer table names an engine again that had parted."""

    peer: EngineId


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """The peer table says that the engine's pod is gone, or another process answers for its name."""

    peer: EngineId


Told: TypeAlias = Decision | PeerParted | PeerReturned | PeerEnded | DrainOrder
"""What others than the network tell."""
News: TypeAlias = Event | Told


class Surroundings:
    """All of them. `take` and `wait` are for the scheduler's thread, the others for any."""

    def __init__(
        self, me: EngineId, settings: ConnectorSettings, keyring: Keyring | None, engine: EngineProcess
    ) -> None:
        self._me = me
        self._settings = settings
        self._keyring = keyring
        self._keys: Keys | None = None
        self.seal = Seal.without_keys()
        """For notes, by the keys of now."""
        self._key_file: KeyFile | None = None
        self._engine = engine
        self._news: deque[Told] = deque()
        self._drain: Drain | None = None
        self._heir: EngineId | None = None
        self._told_to_end = False
        self._mark: DrainMark | None = None
        self._has_news = False
        self._resting = False
        self._loads_told: dict[EngineId, float] = {}
        self._incarnations = Incarnations()
        self._greeted: frozenset[EngineId] = frozenset()
        self._parted: frozenset[EngineId] = frozenset()
        self._left: frozenset[EngineId] = frozenset()
        """Of these, those to which there is no connection any more."""
        self._gone: frozenset[str] = frozenset()
        self.pods: Mapping[str, PeerPod] = {}
        """Pods of the peer table, by UID."""
        self._following = Lock()
        self._doorbell = Doorbell(me)
        self._alarm = Alarm(self.wake)
        self._network: Network | None = None
        self._caller: PrefillCaller | None = None
        self._file: PeersFile | None = None
        self.asker: Asker | None = None
        """None on an engine that asks nobody: prefill, and one without a peer table."""

    def start(self, hello: Hello, *, block_size: int, model: str) -> None:
        """Listen, read the peer table, and ask for prefills from now on.

        Args:
            hello: what peers are told of this engine.
            block_size: tokens per block.
            model: the served model's name.

        Raises:
            ListenError: the address can't be listened on, or may not be without keys.
        """
        if self._settings.peers_file is None:
            return
        bind = Endpoint(self._settings.listen_host, self._settings.listen_port)
        settings = NetworkSettings(liveness=LivenessSettings(silent_after=self._settings.silent_after))
        if self._keyring is not None:
            self._use(self._keyring.at(time.monotonic()))
        self._network = Network(Identity(self._me, hello), bind, self._keys, self._told, settings=settings)
        if self._keyring is not None and self._keys is not None and self._settings.keys_file is not None:
            self._key_file = KeyFile(self._settings.keys_file, self._keyring, self._keys, self._use)
        if self._settings.role is Role.DECODE:
            self.asker = self._asker(self._network, block_size, model)
        if self._settings.status_file is not None:
            self._mark = DrainMark(mark_of(self._settings.status_file), self._marked)
        # Nothing is to be done when a table is refused. But what was counted is told with a step, and an idle engine makes none.
        self._file = PeersFile(self._settings.peers_file, self._table_changed, on_refused=self._told)

    def _asker(self, network: Network, block_size: int, model: str) -> Asker:
        settings = AskingSettings(
            block_size=block_size,
            above_tokens=self._settings.disaggregate_above_tokens,
            reverse=self._settings.reverse,
            patience=Seconds(self._settings.patience),
            rest=Seconds(self._settings.rest),
        )
        caller = self._caller = PrefillCaller(self._call_ended, HttpSettings(api_key=self._settings.api_key))
        return Asker(
            Asking(settings),
            caller=caller,
            call_of=lambda start: prefill_call(start, me=self._me, model=model, seal=self.seal),
            send=network.send,
            loads=self._loads,
            decided=self._decided,
        )

    # -- for the scheduler's thread ---------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether `take` may have something to give."""
        return self._has_news

    def take(self) -> list[News]:
        """What happened since the last call: peers' changes and messages, then decisions.

        Raises:
            NetworkError: the network has failed.
        """
        self._has_news = False
        news: list[News] = list(self._network.take()) if self._network is not None else []
        for each in news:
            if isinstance(each, PeerReplaced):
                self._replaced(each.peer, each.by)
        return news + self.take_decisions()

    def take_decisions(self) -> list[Told]:
        """What was decided since the last call, messages left aside; what the peer table says is among it."""
        decisions = []
        while self._news:
            decisions.append(self._news.popleft())
        return decisions

    def wait(self, seconds: float) -> frozenset[Ring]:
        """Sleep until somebody has something; who, or nobody when the time has passed."""
        return self._doorbell.wait(seconds)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """The engine is in an empty step, where it waits, and sees for itself what there is.

        Whoever wakes it meanwhile must not do that by vLLM's queue, from the clock's alarm between two waits for example: it
        would leave the step, and the ranks spin for a second after each.
        """
        self._resting = True
        try:
            yield
        finally:
            self._resting = False

    def set_alarm(self, at: float | None) -> None:
        """Make the engine look at this time of the monotonic clock."""
        self._alarm.set(at)

    def send(self, peer: EngineId, message: Message) -> None:
        """Send a message, if the peer is connected."""
        if self._network is not None:
            self._network.send(peer, message)

    def drop(self, peer: EngineId, why: str) -> None:
        """Close the connection to a peer that broke the protocol."""
        if self._network is not None:
            self._network.drop(peer, why)

    def leave(self, peer: EngineId) -> None:
        """Close the connection to a peer that has parted; it joins anew when the peer table lists it again."""
        with self._following:
            self._left |= {peer}
            self._follow()

    def set_waiting_tokens(self, tokens: int) -> None:
        """How many prompt tokens wait to be computed here."""
        if self._network is not None:
            self._network.set_waiting_tokens(tokens)

    @property
    def network(self) -> Network | None:
        """None without a peer table."""
        return self._network

    @property
    def table_counts(self) -> TableCounts | None:
        """What has become of the peer table's contents; None without one."""
        return self._file.counts if self._file is not None else None

    @property
    def engine_ends(self) -> bool:
        """Whether vLLM was told to end."""
        return self._engine.ends

    def part(self) -> None:
        """Have peers hear that nothing is done for them any more. What came before is still to be taken."""
        if self._network is not None:
            self._network.part()

    def close(self) -> None:
        """End all threads."""
        for part in (self._file, self._key_file, self._mark, self.asker, self._network, self._alarm, self._doorbell):
            if part is not None:
                part.close()
        if self._caller is not None:
            self._caller.stop()

    # -- from other threads -----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Make the engine look."""
        self._doorbell.ring(Ring.NEWS)
        # For an engine that is idle; one that rests in an empty step would be sent away from there by this.
        if not self._resting:
            self._engine.wake()

    def queued(self) -> None:
        """Something was put into the engine's input queue."""
        self._doorbell.ring(Ring.INPUT)

    def arrived(self, arrival: Arrival, held_blocks: int) -> None:
        """A request has come to an engine that may ask for its prefill."""
        if self.asker is not None:
            self.asker.arrived(arrival, held_blocks)

    def _told(self) -> None:
        if not self._has_news:
            self._has_news = True
            self.wake()

    def _decided(self, decision: Decision) -> None:
        self._news.append(decision)
        self._told()

    def _call_ended(self, call: CallId, outcome: Answer | CallFailed) -> None:
        if self.asker is not None:
            self.asker.call_ended(call, outcome)

    def _loads(self) -> Mapping[EngineId, int]:
        """What peers said of their queues since they were asked the last time."""
        if self._network is None:
            return {}
        now, loads = time.monotonic(), {}
        for engine in self._network.stages():
            tokens = self._network.waiting_tokens(engine)
            if tokens is not None and now - self._loads_told.get(engine, 0.0) >= _LOAD_EVERY:
                self._loads_told[engine] = now
                loads[engine] = tokens
        return loads

    def _table_changed(self, change: TableChange) -> None:
        with self._following:
            self._gone = frozenset(change.table.gone)
            self._incarnations.table(change.table.peers, self._gone)
            self.pods = {pod_of(peer.engine): PeerPod(peer.pod, peer.role) for peer in change.table.peers}
            self._drain, self._heir = change.table.drain, change.table.heir
            self._follow()

    def _use(self, keys: Keys) -> None:
        self._keys, self.seal = keys, keys.seal
        if self._network is not None:
            self._network.set_keys(keys)

    def _marked(self) -> None:
        with self._following:
            self._told_to_end = True
            self._news.append(self._drain_order())
            self._told()

    def _replaced(self, peer: EngineId, by: EngineId) -> None:
        with self._following:
            self._parted -= {peer}
            if self._incarnations.answered(peer, by):
                self._follow()

    def _follow(self) -> None:
        """Speak with those that are to be spoken with now."""
        endpoints: dict[EngineId, Endpoint] = {}
        named = self._incarnations.greeted()
        for name, peer in named.items():
            try:
                endpoints[name] = Endpoint.of(peer)
            except ValueError as error:
                _log.error("peer_ignored peer=%s why=%s", name, error)
        known = (self._greeted | self._parted) - endpoints.keys()
        replaced = {engine for engine in self._greeted - named.keys() if self._incarnations.lists(engine)}
        ended = {engine for engine in known if engine in replaced or pod_of(engine) in self._gone}
        parted = frozenset(known - ended)
        self._left &= parted
        if self._network is not None:
            self._network.set_peers(endpoints, kept=parted - self._left)
        if self.asker is not None:
            self.asker.table(self._incarnations.peers(), sorted(ended))
        for engine in ended:
            self._loads_told.pop(engine, None)
        self._news.extend(PeerEnded(engine) for engine in sorted(ended))
        self._news.extend(PeerParted(engine) for engine in sorted(parted - self._parted))
        self._news.extend(PeerReturned(engine) for engine in sorted(self._parted & endpoints.keys()))
        self._greeted, self._parted = frozenset(endpoints), parted
        self._news.append(self._drain_order())
        self._told()

    def _drain_order(self) -> DrainOrder:
        """By the table, or by the mark: then to the heir."""
        drain = self._drain
        if drain is None and self._told_to_end:
            drain = Drain(successor=self._heir)
        listed = drain.successor if drain is not None else None
        successor = self._incarnations.counterpart(listed, rank_of(self._me)) if listed is not None else None
        if self.asker is not None:
            self.asker.drain(drains=drain is not None)
        return DrainOrder(drain is not None, successor)
