# SPDX-License-Identifier: Apache-2.0
"""Carries events into the exchange and its commands out: to peers, to the ranks, to the requests that wait."""

import logging
from collections.abc import Iterable
from typing import Final, assert_never

from tandem_connector.contract.messages import Envelope, Have
from tandem_connector.exchange import commands
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import Seconds, WriteEnd
from tandem_connector.vllm.asker import Decision
from tandem_connector.vllm.commands import Expect, ExpectFewer, Forget, Submit, Withdraw
from tandem_connector.vllm.draining import Draining, DrainOrder
from tandem_connector.vllm.fabric import Fabric
from tandem_connector.vllm.loading import Loading
from tandem_connector.vllm.measuring import Measuring
from tandem_connector.vllm.metrics import State
from tandem_connector.vllm.network.events import (
    PeerBack,
    PeerJoined,
    PeerRefused,
    PeerReplaced,
    PeerSilent,
    Received,
)
from tandem_connector.vllm.orders import Order, RankReport
from tandem_connector.vllm.peer_counts import PeerCounts
from tandem_connector.vllm.peering import Peering
from tandem_connector.vllm.ranks import BlocksReceived, PeerUnwritable, Ranks, StepRanEverywhere, WriteEnded
from tandem_connector.vllm.reports import Outcome
from tandem_connector.vllm.status import StatusFile
from tandem_connector.vllm.surroundings import News, PeerEnded, PeerParted, PeerReturned, Surroundings

_log = logging.getLogger(__name__)
_ENDS: Final = {
    Outcome.WRITTEN: WriteEnd.WRITTEN,
    Outcome.NOT_POSTED: WriteEnd.NOT_WRITTEN,
    Outcome.UNCERTAIN: WriteEnd.UNCERTAIN,
}


class Conduct:
    """Of one engine; scheduler's thread."""

    def __init__(
        self,
        exchange: Exchange,
        loading: Loading,
        measuring: Measuring,
        draining: Draining,
        surroundings: Surroundings,
        *,
        status: StatusFile,
        ranks: int,
        fabric: Fabric,
        peer_counts: PeerCounts,
    ) -> None:
        self._exchange = exchange
        self._loading = loading
        self._measuring = measuring
        self._draining = draining
        self._surroundings = surroundings
        self._status = status
        self._fabric = fabric
        self._peer_counts = peer_counts
        self._ranks = Ranks(ranks)
        self.peering = Peering(exchange, draining, surroundings, self._order)
        self._orders: list[Order] = []

    # -- what happens -----------------------------------------------------------------------------------------------

    def take_news(self, now: Seconds) -> bool:
        """Take what other threads have to tell; whether anything was decided of a request."""
        decided = False
        if self._surroundings.has_news:
            for news in self._surroundings.take():
                decided |= isinstance(news, Decision)
                self._take(news, now)
        return decided

    def take_decisions(self, now: Seconds) -> None:
        """Take what was decided of requests, and nothing that peers said."""
        for news in self._surroundings.take_decisions():
            self._take(news, now)

    def _take(self, news: News, now: Seconds) -> None:
        match news:
            case Received(envelope):
                self._receive(envelope, now)
            case PeerJoined(peer, hello):
                self.peering.joined(peer, hello, now)
            case PeerSilent(peer):
                self.peering.silent(peer, now)
            case PeerBack(peer):
                self.peering.back(peer, now)
            case PeerReplaced(peer) | PeerEnded(peer):
                self.peering.gone(peer, now)
            case PeerParted(peer):
                self.peering.parts(peer, now)
            case PeerReturned(peer):
                self.peering.returned(peer, now)
            case PeerRefused():
                pass  # the network has logged it, and nothing can be done before one of the two is replaced
            case DrainOrder() as order:
                self._draining.told(order, now)
            case decision:
                self._loading.decided(decision, now)

    def _receive(self, envelope: Envelope, now: Seconds) -> None:
        asker = self._surroundings.asker
        if isinstance(envelope.message, Have):
            if asker is not None:
                asker.have(envelope.message.query, envelope.sender, envelope.message.count)
        else:
            self._exchange.receive(envelope, now)

    def take_reports(self, reports: Iterable[RankReport], now: Seconds) -> None:
        """Take what the ranks have to say with a step's output."""
        for happened in self._ranks.take(reports):
            match happened:
                case StepRanEverywhere(step):
                    self._exchange.step_finished(step)
                case BlocksReceived(want, indices):
                    self._loading.received(want)
                    self._exchange.want_received(want, indices, now)
                case WriteEnded(job, outcome, why):
                    if outcome is not Outcome.WRITTEN:
                        _log.info("write_failed job=%d outcome=%s why=%s", job, outcome, why)
                    self._exchange.write_ended(job, _ENDS[outcome], now)
                case PeerUnwritable(peer, _):
                    self.peering.unwritable(peer, now)
                case _:
                    assert_never(happened)

    def tick(self, now: Seconds) -> bool:
        """Do what is due; whether the scheduler should look at its requests again."""
        self._exchange.tick(now)
        self._draining.tick(now)
        again = self._loading.tick(now)
        self.peering.tick(now)
        self._peer_counts.look(self._surroundings.pods, now)
        self._peer_counts.tick(now)
        return again

    def next_due(self) -> Seconds | None:
        """When `tick` has something to do."""
        parts = (self._exchange, self._loading, self._draining, self.peering, self._peer_counts)
        due = [part.next_due() for part in parts]
        return min((at for at in due if at is not None), default=None)

    # -- what follows -----------------------------------------------------------------------------------------------

    def state(self, block_bytes: int, now: Seconds) -> State:
        """All that is counted; what is told by peer is told once. `block_bytes` are those of a block on all ranks."""
        self._peer_counts.add(self._exchange.tally.take_moved(), now)
        network, asker = self._surroundings.network, self._surroundings.asker
        return State(
            tally=self._exchange.tally,
            gauges=self._exchange.gauges(),
            network=network.counts if network is not None else None,
            tables=self._surroundings.table_counts,
            asking=asker.tally if asker is not None else None,
            peers=len(self.peering.connected),
            peers_refused=network.refused_peers if network is not None else 0,
            fabric=self._fabric,
            status=self._status.status,
            block_bytes=block_bytes,
            peer_news=self._peer_counts.take(),
        )

    @property
    def expects_ranks(self) -> bool:
        """The ranks may have something to report: the engine must go on stepping."""
        return self._exchange.expects_workers or self.peering.adding

    @property
    def has_orders(self) -> bool:
        """Whether `take_orders` has something to give."""
        return bool(self._orders)

    def take_orders(self) -> tuple[Order, ...]:
        """What the ranks are to do, since the last call."""
        orders, self._orders = tuple(self._orders), []
        return orders

    def carry_out(self, now: Seconds) -> None:
        """Carry out what the exchange has commanded, and what follows from that."""
        while given := self._exchange.commands():
            for command in given:
                self._carry_out(command, now)
        self.peering.settle(now)

    def _order(self, order: Order) -> None:
        self._orders.append(order)

    def _carry_out(self, command: commands.Command, now: Seconds) -> None:
        match command:
            case commands.Send(peer, message):
                self._surroundings.send(peer, message)
            case commands.DropPeer(peer, why):
                self._surroundings.drop(peer, why)
            case commands.PostWrite(write):
                self._orders.append(Submit((write,)))
            case commands.WithdrawWrites(jobs):
                self._orders.append(Withdraw(jobs))
            case commands.ExpectWant() | commands.ExpectFewer() | commands.ForgetWant():
                self._expect(command)
            case commands.LoadEnded():
                self._measuring.ended(command, now)
                self._loading.load_ended(command, now)
            case commands.LandingEnded():
                self._measuring.ended(command, now)
                level = logging.DEBUG if command.received == command.wanted else logging.INFO
                _log.log(level, "%s", command)
            case commands.LandingCommitted() | commands.ServingEnded():
                _log.debug("%s", command)
            case commands.MoveEnded(successor, offered, written):
                _log.info("move_ended successor=%s offered=%d written=%d", successor, offered, written)
            case commands.Unhealthy() | commands.Healthy():
                self._tell_health(command, now)
            case _:
                assert_never(command)

    def _expect(self, command: commands.ExpectWant | commands.ExpectFewer | commands.ForgetWant) -> None:
        match command:
            case commands.ExpectWant(want, peer, blocks):
                self._ranks.expect(want)
                self._orders.append(Expect(want, peer, len(blocks)))
            case commands.ExpectFewer(want, fewer):
                self._orders.append(ExpectFewer(want, fewer))
            case commands.ForgetWant(want):
                self._ranks.forget(want)
                self._orders.append(Forget(want))

    def _tell_health(self, command: commands.Unhealthy | commands.Healthy, now: Seconds) -> None:
        match command:
            case commands.Unhealthy(why):
                self._status.change(unhealthy=why, since=now)
                _log.error("exchange_unhealthy why=%s", why)
            case commands.Healthy():
                self._status.change(unhealthy="", since=None)
                _log.info("exchange_healthy")
