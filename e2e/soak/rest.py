# SPDX-License-Identifier: Apache-2.0
"""What an engine holds when nobody asks anything of it: no block, no want, and no more memory than it had before."""

import asyncio
import urllib.error
from dataclasses import dataclass
from pathlib import Path

from e2e.exchange.engine import Engine
from e2e.exchange.prompts import ask
from e2e.exchange.unrest import unrest
from e2e.soak.fleet import Fleet, Standing
from e2e.soak.tally import Tally
from tandem_connector.contract.types import EngineId

WITHIN = 60.0
"""Seconds in which all must be given back: a want's time to live, and then the transport's bound."""
WARM_AFTER = 4
"""Looks after which an engine has done all kinds of work: until then its allocators and caches grow, ever slower."""
MORE_MEMORY = 150
"""MiB that an engine that was warmed up (`e2e.soak.warm`) may have more than then."""
MORE_THREADS = 8
"""Vllm's front end starts threads of its pool as they are needed."""
MORE_FILES = 40
"""File descriptors: each engine that it met may leave some of the transport's behind."""


@dataclass(frozen=True)
class Footprint:
    """Of all processes of an engine."""

    memory: int
    """Resident, in MiB."""
    threads: int
    files: int

    @classmethod
    def of(cls, engine: Engine) -> "Footprint":
        """As it is now."""
        memory = threads = files = 0
        for pid in engine.processes():
            process = Path(f"/proc/{pid}")
            fields = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
            memory += int(fields.get("VmRSS", "0 kB").split()[0]) // 1024
            threads += int(fields["Threads"])
            files += sum(1 for _ in (process / "fd").iterdir())
        return cls(memory, threads, files)

    def grown(self, since: "Footprint", *, weighed: bool = True) -> str | None:
        """What has grown beyond its bound, in words; None if nothing has. Memory only where it is `weighed`."""
        bounds = [
            ("threads", since.threads, self.threads, MORE_THREADS),
            ("files", since.files, self.files, MORE_FILES),
        ]
        if weighed:
            bounds.insert(0, ("memory (MiB)", since.memory, self.memory, MORE_MEMORY))
        grown = [f"{what} from {before} to {now}" for what, before, now, bound in bounds if now - before > bound]
        return ", ".join(grown) or None


class Rest:
    """Looks at engines that nobody uses, again and again."""

    def __init__(self, fleet: Fleet, tally: Tally, weighed: frozenset[str], *, slack: float) -> None:
        self._fleet = fleet
        self._weighed = weighed
        self._within = WITHIN * slack
        self._tally = tally
        self._seen: dict[EngineId, list[Footprint]] = {}

    async def look(self) -> None:
        """Wait until all has been given back, and note what hasn't."""
        names = self._fleet.standing(Standing.UP)
        for name in names:
            peers = [peer for peer in names if self._fleet[peer].spec.role is not self._fleet[name].spec.role]
            await self._engine(name, len(peers))
        self._tally.rests += 1

    async def _engine(self, name: str, peers: int) -> None:
        engine = self._fleet[name]
        loop = asyncio.get_running_loop()
        end = loop.time() + self._within
        while holds := await asyncio.to_thread(_holds, engine, peers):
            if loop.time() > end:
                self._tally.failed("leaked", f"{engine.id} holds after {self._within:.0f} s: {holds}")
                return
            await asyncio.sleep(1.0)
        footprint = await asyncio.to_thread(Footprint.of, engine)
        seen = self._seen.setdefault(engine.id, [])
        seen.append(footprint)
        self._tally.note(f"at rest {engine.id} {footprint}")
        if grown := footprint.grown(seen[min(WARM_AFTER, len(seen)) - 1], weighed=name in self._weighed):
            self._tally.failed("leaked", f"{engine.id} has grown: {grown}")
            seen[WARM_AFTER - 1 :] = [footprint]


def _holds(engine: Engine, peers: int) -> str | None:
    """What the engine holds, in words; None if nothing. It has no cached prefix afterwards then."""
    try:
        # Metrics go with steps: those of an engine that has nothing to compute are of long ago.
        ask(engine, [400, 401, 402], output=1, timeout=30.0)
        wrong = unrest(engine.metrics(), peers)
        if not wrong and not engine.post("/reset_prefix_cache", timeout=30.0)["success"]:
            wrong.append("blocks are referenced")
    except (urllib.error.URLError, OSError) as error:
        return repr(error)
    return ", ".join(wrong) or None
