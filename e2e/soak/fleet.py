# SPDX-License-Identifier: Apache-2.0
"""Engines of which some are down, frozen or badly spoken of at any moment, and what an operator does about it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from enum import Enum, auto
from pathlib import Path

from e2e.exchange.engine import Engine, EngineSpec
from e2e.exchange.engines import Engines
from e2e.exchange.front import Front
from e2e.exchange.ports import Ports
from e2e.soak.warm import warm_up
from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Role

STARTS = 3
"""How often a start is tried: a port that was free may be taken when the engine listens on it."""

STARTS_WITHIN = 300.0
"""Seconds, beside engines that are busy."""


class Standing(Enum):
    """What is done to an engine now."""

    UP = auto()
    FROZEN = auto()
    DOWN = auto()
    """From the signal that ends it until the next one answers."""


class StartError(Exception):
    """An engine doesn't start. The text names its log."""


class Fleet:
    """All engines, by names that they keep when they are replaced. For one event loop.

    Prefill engines have a front before their HTTP server that can be made to fail.
    """

    def __init__(
        self, engines: Engines, model: Path, specs: Mapping[str, EngineSpec], exits: ExitStack, *, slack: float
    ) -> None:
        """Without any engine running.

        Args:
            engines: that serve `model`; none has been started yet.
            model: its folder.
            specs: the engines that there shall be, by name.
            exits: ends the fronts.
            slack: how many times as long a start may take.
        """
        self.model = model
        self._engines = engines
        self._starts_within = STARTS_WITHIN * slack
        self._specs = dict(specs)
        self._standing = dict.fromkeys(specs, Standing.DOWN)
        self._told: dict[str, EngineState | None] = {}
        self.fronts = {name: exits.enter_context(Front(0)) for name, spec in specs.items() if spec.role is Role.PREFILL}
        self.ended: set[EngineId] = set()
        """Processes that were ended on purpose."""
        self.started = 0
        """Processes that came to answer."""

    async def start(self, warm: Collection[str] = (), step: int = 0) -> None:
        """Start all; those to be warmed compute a step of each number of tokens up to `step` before anybody may ask them."""
        await asyncio.gather(*(self._begin(name) for name in self._specs))
        await asyncio.gather(*(asyncio.to_thread(warm_up, self[name], self.model, step) for name in warm))
        for name in self._specs:
            self._take_up(name)

    def __getitem__(self, name: str) -> Engine:
        return self._engines[name]

    def standing(self, *standings: Standing, role: Role | None = None) -> list[str]:
        """Names of the engines for which this holds."""
        return [
            name
            for name, standing in self._standing.items()
            if standing in standings and role in {None, self._specs[name].role}
        ]

    @property
    def standings(self) -> Mapping[str, Standing]:
        """Of all engines."""
        return self._standing

    def crashed(self) -> list[str]:
        """Names of those that have ended by themselves."""
        return [name for name in self.standing(Standing.UP, Standing.FROZEN) if not self._engines[name].alive]

    # -- life -------------------------------------------------------------------------------------------------------

    async def _start(self, name: str, ports: Ports | None = None) -> None:
        await self._begin(name, ports)
        self._take_up(name)

    def _take_up(self, name: str) -> None:
        self._standing[name] = Standing.UP
        self.started += 1
        self.tell(**{name: EngineState.READY})

    async def _begin(self, name: str, ports: Ports | None = None) -> None:
        for _ in range(STARTS):
            engine = self._engines.begin(name, self._specs[name], ports)
            if name in self.fronts:
                self.fronts[name].behind, engine.http_port = engine.port, self.fronts[name].port
            self.tell(**{name: EngineState.STARTING})
            if await self._answers(engine):
                return
        raise StartError(f"{name} doesn't start: see {self._engines[name].log}")

    async def _answers(self, engine: Engine) -> bool:
        end = asyncio.get_running_loop().time() + self._starts_within
        while asyncio.get_running_loop().time() < end:
            if not engine.alive:
                return False
            if await asyncio.to_thread(engine.ready):
                return True
            await asyncio.sleep(1.0)
        return False

    async def replace(self, name: str, number: signal.Signals, told_after: float, *, same_place: bool = False) -> None:
        """End this one by the signal, tell the others so many seconds later, and start another one.

        With `same_place` it listens on the same ports, as a container that is restarted in its pod.
        """
        engine = self._engines[name]
        self._standing[name] = Standing.DOWN
        self.ended.add(engine.id)
        if number is signal.SIGKILL:
            await asyncio.to_thread(engine.kill)
        else:
            await asyncio.to_thread(engine.stop)
        await asyncio.sleep(told_after)
        self.tell()
        await self._start(name, engine.ports if same_place else None)

    async def retire(self, name: str, seconds: float) -> None:
        """Let it drain, take it out of the tables, each for so many seconds, and only then replace it."""
        engine = self._engines[name]
        self._standing[name] = Standing.DOWN
        self.ended.add(engine.id)
        for state in (EngineState.DRAINING, None):
            self.tell(**{name: state})
            await asyncio.sleep(seconds)
        await self.replace(name, signal.SIGTERM, 0.0)

    @asynccontextmanager
    async def frozen(self, name: str) -> AsyncIterator[None]:
        """Its processes are stopped meanwhile."""
        engine = self._engines[name]
        self._standing[name] = Standing.FROZEN
        engine.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            if self._engines[name] is engine and self._standing[name] is Standing.FROZEN:
                engine.signal(signal.SIGCONT)
                self._standing[name] = Standing.UP

    # -- what the engines are told ----------------------------------------------------------------------------------

    def tell(self, **states: EngineState | None) -> None:
        """Write all peer tables anew. What is said of an engine here is said until something else is."""
        self._told |= states
        self._engines.tell(**self._told)

    def table(self, name: str) -> PeerTable:
        """The one that this engine should have."""
        peers = self._engines.peers_of(self._engines[name], **self._told)
        return self._engines.table_of(peers)

    def knows_its_table(self, name: str) -> bool:
        """Whether the engine has read the table that it should have: before, it may well take another one."""
        read = f"peer_table_read generation={self._engines.generation} "
        return read in self._engines[name].log.read_text(errors="replace")

    @asynccontextmanager
    async def draining(self, name: str) -> AsyncIterator[None]:
        """Meanwhile the others' tables say that it drains."""
        engine = self._engines[name]
        self.tell(**{name: EngineState.DRAINING})
        try:
            yield
        finally:
            if self._engines[name] is engine and self._standing[name] is not Standing.DOWN:
                self.tell(**{name: EngineState.READY})
