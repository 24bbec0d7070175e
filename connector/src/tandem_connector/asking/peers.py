# SPDX-License-Identifier: Apache-2.0
"""The Ps that may be asked now, and what is known of their load."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tandem_connector.asking.choose import Candidate
from tandem_connector.contract.peers import Address, Peer
from tandem_connector.contract.types import EngineState, Role, pod_of
from tandem_connector.exchange.types import EngineId, Seconds


@dataclass(slots=True)
class _Load:
    waiting: int = 0
    """Tokens that wait there, as it said last."""
    asked: int = 0
    """Tokens that were asked of it since then."""


class Prefillers:
    """The engines of the peer table that compute prompts. It lists none of another revision."""

    def __init__(self) -> None:
        """None yet."""
        self._table: dict[EngineId, Peer] = {}
        self._reachable: set[EngineId] = set()
        self._loads: dict[EngineId, _Load] = {}
        self._rests_until: dict[EngineId, dict[str | None, Seconds]] = {}
        """By LoRA adapter; None: for whatever request."""

    def replace(self, peers: Iterable[Peer]) -> None:
        """A new peer table holds."""
        table = {peer.engine: peer for peer in peers if peer.role is Role.PREFILL}
        for engine in self._table.keys() - table.keys():
            self._loads.pop(engine, None)
            self._rests_until.pop(engine, None)
        self._table = table

    def reachable(self, engine: EngineId) -> None:
        """The engine is connected, and alive; it may be so before the table names it, and after."""
        self._reachable.add(engine)

    def unreachable(self, engine: EngineId) -> None:
        """It isn't connected, or silent, or gone."""
        self._reachable.discard(engine)
        self._loads.pop(engine, None)

    def waiting(self, engine: EngineId, tokens: int) -> None:
        """The engine says that so many tokens wait there: what was asked before is among them, or done."""
        if engine in self._table:
            self._loads[engine] = _Load(tokens)

    def asked(self, engine: EngineId, tokens: int) -> None:
        """So many tokens were asked of it, of which it hasn't spoken yet."""
        if engine in self._table:
            self._loads.setdefault(engine, _Load()).asked += tokens

    def rest(self, engine: EngineId, until: Seconds, lora: str | None = None) -> None:
        """The engine failed: don't ask it before this time, or only not for requests with the LoRA adapter."""
        if engine in self._table:
            self._rests_until.setdefault(engine, {})[lora] = until

    def rest_server(self, engine: EngineId, until: Seconds) -> None:
        """The engine's server failed: don't ask any of its data-parallel ranks before this time."""
        for each in self._table:
            if pod_of(each) == pod_of(engine):
                self.rest(each, until)

    def address(self, engine: EngineId) -> Address:
        """Where a candidate listens."""
        return self._table[engine].address

    def usable(self) -> frozenset[EngineId]:
        """Ready engines that are reachable, whether they rest or not."""
        return frozenset(
            engine
            for engine, peer in self._table.items()
            if peer.state is EngineState.READY and engine in self._reachable
        )

    def candidates(
        self, now: Seconds, tried: Collection[EngineId] = (), lora: str | None = None
    ) -> tuple[Candidate, ...]:
        """Those that may be asked now and weren't tried, for a request with this LoRA adapter or without any, in a fixed order.

        Those behind a server that was tried are among them only if there are no others.
        """
        untried = tuple(
            Candidate(engine, load.waiting + load.asked)
            for engine in sorted(self.usable())
            if engine not in tried and not self._rests(engine, lora, now)
            for load in (self._loads.get(engine, _Load()),)
        )
        servers = {pod_of(engine) for engine in tried}
        return tuple(each for each in untried if pod_of(each.engine) not in servers) or untried

    def _rests(self, engine: EngineId, lora: str | None, now: Seconds) -> bool:
        until = self._rests_until.get(engine, {})
        return any(until.get(each, now) > now for each in (None, lora))
