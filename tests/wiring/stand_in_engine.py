# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for engines: HTTP servers that answer completions as decode and prefill do, or wrongly in one chosen way."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tandem_connector.contract.types import EngineId
from tandem_operator.plan.target import Place

METRICS = """\
# HELP tandem_transport x
# TYPE tandem_transport gauge
tandem_transport{engine="0",model_name="m",backend="%s",provider="%s",devices="%d"} 1.0
# HELP tandem_peers_refused x
# TYPE tandem_peers_refused gauge
tandem_peers_refused{engine="0",model_name="m"} %d
"""


def continuation(prompt: list[int], tokens: int) -> list[int]:
    """What the model says to a prompt, whoever computes it."""
    said: list[int] = []
    for _ in range(tokens):
        digest = hashlib.sha256(json.dumps([*prompt, *said]).encode()).digest()
        said.append(300 + digest[0] % 200)
    return said


@dataclass
class StandIn:
    """One engine."""

    engine: EngineId
    account: Mapping[str, Any] | None = None
    """What it says of each turn, beside what a good one says; None: it is a prefill engine, and says nothing."""
    status: int = 200
    hangs: bool = False
    says: str | None = None
    """Instead of an answer."""
    is_wrong: bool = False
    refuses_peers: int = 0
    fabric: tuple[str, str, int] = ("UCX", "", 0)
    """Backend, provider and devices, as it says."""
    seen: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests that it got."""
    ranks: list[str | None] = field(default_factory=list)
    port: int = 0
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends its hanging."""

    @property
    def place(self) -> Place:
        return Place(self.engine, "127.0.0.1", self.port)

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.seen.append(body)
        self.ranks.append(request.headers.get("X-data-parallel-rank"))
        if self.hangs:
            await self.goes_on.wait()
        if self.says is not None or self.status != 200:
            return web.Response(status=self.status, text=self.says or "these are the engine's words")
        tokens = continuation(body["prompt"], body["max_tokens"])
        if self.is_wrong:
            tokens[1] += 1
        names = [f"token_id:{token}" for token in tokens]
        logprobs = {"tokens": names, "top_logprobs": [{name: -0.01, "token_id:7": -5.0} for name in names]}
        answer = {"choices": [{"text": "", "logprobs": logprobs}], "kv_transfer_params": self._params(body)}
        return web.json_response(answer)

    def _params(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.account is None:
            return None
        before = self.seen[-2] if len(self.seen) > 1 else None
        goes_on = before and body["prompt"][: len(before["prompt"])] == before["prompt"]
        held = len(before["prompt"]) + before["max_tokens"] - 1 if before and goes_on else 0
        lacked = len(body["prompt"]) - held
        return {"tandem": {"prompt": len(body["prompt"]), "computed": 1, "computed_by_prefill": lacked, **self.account}}

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=METRICS % (*self.fabric, self.refuses_peers))


@asynccontextmanager
async def serving(*engines: StandIn, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[None]:
    """Each at a port of its own, unless there is one and its port is given."""
    runners = []
    try:
        for engine in engines:
            application = web.Application(client_max_size=1 << 24)
            application.router.add_post("/v1/completions", engine.complete)
            application.router.add_get("/metrics", engine.metrics)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            runners.append(runner)
            await web.TCPSite(runner, host, port).start()
            engine.port = runner.addresses[0][1]
        yield
    finally:
        for runner in runners:
            await runner.cleanup()
