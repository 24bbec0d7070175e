# SPDX-License-Identifier: Apache-2.0
"""The whole operator in one process, against the fake API server."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp.test_utils import unused_port

from tandem_operator.api.names import PLURAL
from tandem_operator.kube.kinds import RESOURCE, SCALER, Kind
from tandem_operator.settings import Settings
from tandem_operator.wiring.process import run
from tests.builders import a_resource
from tests.kube.fake_api import FakeApi
from tests.kube.serving import new_api, serve
from tests.wiring.test_watching import until


class Operator:
    """A running operator and its own HTTP endpoints."""

    def __init__(self, task: asyncio.Task[None], port: int) -> None:
        self.task = task
        self._port = port

    async def ask(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self._port}{path}") as answer:
            return answer.status, await answer.text()

    async def _status(self, path: str) -> int:
        try:
            return (await self.ask(path))[0]
        except aiohttp.ClientConnectionError:
            return 0

    async def is_ready(self) -> None:
        async with asyncio.timeout(10):
            while await self._status("/readyz") != 200:  # noqa: ASYNC110 -- it is asked as a kubelet would
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(asyncio.shield(self.task), 10)


@asynccontextmanager
async def running(api: FakeApi, folder: Path, **changes: Any) -> AsyncIterator[Operator]:
    port = unused_port()
    settings = {"kubeconfig": write_kubeconfig(api, folder), "http_host": "127.0.0.1", "http_port": port, **changes}
    task = asyncio.create_task(run(Settings(**settings)))
    try:
        yield Operator(task, port)
    finally:
        if not task.done():
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def write_kubeconfig(api: FakeApi, folder: Path) -> Path:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "fake",
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
                "clusters": [{"name": "fake", "cluster": {"server": api.address}}],
                "users": [{"name": "fake", "user": {}}],
            }
        )
    )
    return kubeconfig


async def test_a_resource_gets_its_children_and_the_process_ends_cleanly_on_sigterm(
    api: FakeApi, tmp_path: Path
) -> None:
    api.put(PLURAL, a_resource().manifest())
    async with running(api, tmp_path) as operator:
        await operator.is_ready()
        await until(lambda: api.get("deployments", "qwen") is not None)
        assert (await operator.ask("/healthz")) == (200, "ok\n")
        _, metrics = await operator.ask("/metrics")
        assert "tandem_leader 1.0" in metrics
        assert "process_resident_memory_bytes" in metrics
        await operator.stop()
    lease = api.get("leases", "tandem-operator") or {}
    assert lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("missing", [RESOURCE, SCALER], ids=lambda kind: kind.kind)
async def test_it_waits_for_its_crds_and_is_not_ready_before(tmp_path: Path, missing: Kind) -> None:
    api = new_api(without=(missing,))
    async with serve(api), running(api, tmp_path) as operator:
        await until(lambda: "/apis/tandem.dev/v1alpha1" in api.discovered)
        status, text = await operator.ask("/readyz")
        assert status == 503
        assert "not watching pods yet" in text
        assert (await operator.ask("/healthz"))[0] == 200, "a restart would not help"
        await operator.stop()
    assert api.writes == []


async def test_a_watch_that_fails_for_good_ends_the_process_and_frees_the_lease(api: FakeApi, tmp_path: Path) -> None:
    async with running(api, tmp_path) as operator:
        await operator.is_ready()
        await until(lambda: api.get("leases", "tandem-operator") is not None)
        await api.interrupt_watch("pods", code=500)
        with pytest.raises(Exception, match="Error in the watch-stream"):
            await asyncio.wait_for(asyncio.shield(operator.task), 15)
    assert (api.get("leases", "tandem-operator") or {})["spec"]["holderIdentity"] == ""


async def test_the_program_ends_with_an_error_when_a_watch_fails_for_good(api: FakeApi, tmp_path: Path) -> None:
    """Not only the coroutine: what kopf leaves behind must not keep the process from ending."""
    environment = {
        **os.environ,
        "TANDEM_KUBECONFIG": str(write_kubeconfig(api, tmp_path)),
        "TANDEM_HTTP_PORT": str(unused_port()),
    }
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tandem_operator", "run", env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            while not any("watch" in asked.verb for asked in api.asked):  # noqa: ASYNC110 -- plain data
                await asyncio.sleep(0.05)
            await api.interrupt_watch("pods", code=500)
            _, log = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
    assert program.returncode == 1
    assert b"operator failed" in log


async def test_a_namespace_outside_of_those_to_serve_is_left_alone(api: FakeApi, tmp_path: Path) -> None:
    served = a_resource().manifest()
    other = a_resource().named("other").in_namespace("elsewhere").manifest()
    other["metadata"]["uid"] = "uid-of-other"
    api.put(PLURAL, served)
    api.put(PLURAL, other)
    async with running(api, tmp_path, namespaces=("models",)) as operator:
        await until(lambda: api.get("deployments", "qwen") is not None)
        assert api.get("deployments", "other") is None
        await operator.stop()
