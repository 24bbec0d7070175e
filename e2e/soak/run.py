# SPDX-License-Identifier: Apache-2.0
"""One run: load and faults for a while, then rest, again and again until the time is over."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from e2e.engine.environment import EngineEnvironment
from e2e.engine.model import Shape, make_model
from e2e.exchange.engine import EngineSpec
from e2e.exchange.engines import running
from e2e.soak.clients import HUNG_AFTER, Clients
from e2e.soak.expected import expected_answers
from e2e.soak.faults import faults
from e2e.soak.fleet import Fleet
from e2e.soak.rest import WARM_AFTER, Rest
from e2e.soak.scripts import scripts
from e2e.soak.strikes import Strikes
from e2e.soak.tally import Tally
from tandem_connector.contract.types import Role

SHAPE = Shape(hidden=256, layers=6, heads=4, kv_heads=2, head=64, intermediate=512)
"""Small, so that an engine is busy with the exchange more than with computing: 6 KiB of KV per token."""
STEP = 512
"""Most tokens that an engine computes at once."""
LINE_EVERY = 10.0
"""Seconds."""
_SETTINGS = {
    "disaggregate_above_tokens": 64,
    # Engines share two cores with each other.
    "silent_after": 4.0,
    "patience": 6.0,
    "rest": 3.0,
    "fetch_deadline": 5.0,
}


@dataclass(frozen=True)
class Plan:
    """How a run is to be."""

    seed: int
    minutes: float = 10.0
    """Of load and faults; starting, and waiting at rest, come on top."""
    prefill: int = 2
    decode: int = 2
    clients: int = 6
    """Conversations at the same time."""
    scripts: int = 12
    """Different conversations."""
    pause: float = 5.0
    """Mean seconds between two faults."""
    epoch: float = 240.0
    """Seconds of load between two rests."""
    replaces: bool = True
    """Whether engines are ended and started anew."""
    slack: float = 1.0
    """By how much all that is waited for may take longer than on a machine of two cores that does nothing else."""

    @property
    def weighed(self) -> frozenset[str]:
        """Engines whose memory is held to a bound: of a run that is long enough for it, those that live through it."""
        return self.spared if self.minutes * 60 > WARM_AFTER * self.epoch else frozenset()

    @property
    def spared(self) -> frozenset[str]:
        """One of several engines of a role lives from the beginning to the end: others find it, and it shows what it gathers."""
        return frozenset(
            f"{first}{count - 1}" for first, count in (("p", self.prefill), ("d", self.decode)) if count > 1
        )

    def specs(self) -> dict[str, EngineSpec]:
        """The engines: pools of 8,000 tokens, for two of the longest prompts."""
        small = ("--num-gpu-blocks-override", "256", "--max-num-batched-tokens", str(STEP), "--max-num-seqs", "8")
        roles = [Role.PREFILL] * self.prefill + [Role.DECODE] * self.decode
        names = [f"p{number}" for number in range(self.prefill)] + [f"d{number}" for number in range(self.decode)]
        return {
            name: EngineSpec(role, core=str(number % 2), arguments=small, extra=_SETTINGS)
            for number, (name, role) in enumerate(zip(names, roles, strict=True))
        }


async def soak(plan: Plan, environment: EngineEnvironment, tally: Tally, folder: Path, kept: Path) -> None:
    """Carry the plan out.

    Args:
        plan: how.
        environment: the engines'.
        tally: what happens is counted in it.
        folder: takes logs and journals.
        kept: a folder in which what a plain engine answers is kept for other runs.

    Raises:
        StartError: an engine did not even start for the first time.
    """
    # Some requests of faults wait for as long as an engine is frozen, and must not keep others from being made.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    model = kept / "model"
    make_model(model, shape=SHAPE)
    talks = scripts(plan.scripts)
    answers = await asyncio.to_thread(expected_answers, environment, model, talks, kept)
    with running(environment, model, folder / "engines") as engines, ExitStack() as exits:
        fleet = Fleet(engines, model, plan.specs(), exits, slack=plan.slack)
        await fleet.start(plan.weighed, STEP)
        clients = Clients(fleet, talks, answers, tally, plan.seed, slack=plan.slack)
        try:
            await _Run(plan, fleet, clients, tally).run()
        finally:
            await clients.close()


class _Run:
    def __init__(self, plan: Plan, fleet: Fleet, clients: Clients, tally: Tally) -> None:
        self._plan = plan
        self._fleet = fleet
        self._clients = clients
        self._tally = tally
        self._rest = Rest(fleet, tally, plan.weighed, slack=plan.slack)
        self._strikes = Strikes(fleet, tally, plan.spared, HUNG_AFTER * plan.slack)
        self._faults = faults(plan.seed, plan.pause)
        self._began = time.monotonic()
        self._ends = self._began + plan.minutes * 60

    async def run(self) -> None:
        telling = asyncio.create_task(self._tell())
        try:
            await self._rest.look()
            while (left := self._ends - time.monotonic()) > 0:
                await self._epoch(min(left, self._plan.epoch))
                await self._rest.look()
        finally:
            telling.cancel()

    async def _epoch(self, seconds: float) -> None:
        """Load and faults for so long, and load until every engine is back."""
        over = asyncio.Event()
        async with asyncio.TaskGroup() as talking:
            for client in range(self._plan.clients):
                talking.create_task(self._clients.talk(client, over))
            async with asyncio.TaskGroup() as striking:
                await self._strike(striking, time.monotonic() + seconds)
            over.set()

    async def _strike(self, striking: asyncio.TaskGroup, until: float) -> None:
        # An engine takes a minute to start, in which it is no use to wait for the next rest.
        last_heavy = until - self._plan.epoch / 2
        while (now := time.monotonic()) < until:
            fault = next(self._faults)
            await asyncio.sleep(min(fault.pause, until - now))
            for name in self._fleet.crashed():
                striking.create_task(self._strikes.revive(name))
            if now + fault.pause < until:
                heavy = self._plan.replaces and now < last_heavy
                striking.create_task(self._strikes.strike(fault, heavy=heavy))

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(LINE_EVERY)
            gone = time.monotonic() - self._began
            up = ", ".join(f"{name} {standing.name.lower()}" for name, standing in self._fleet.standings.items())
            under_way = self._clients.under_way
            print(f"{gone:.0f} s: {self._tally.line()}; {under_way} under way; {up}", flush=True)
