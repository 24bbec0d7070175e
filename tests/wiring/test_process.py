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

from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import Role
from tandem_operator.api.names import PEERS_ANNOTATION, PLURAL, REVISION_LABEL
from tandem_operator.kube.kinds import RESOURCE, SCALER, Kind
from tandem_operator.settings import Settings
from tandem_operator.wiring.process import run
from tests.builders import a_ready_pod, a_resource
from tests.builders.pods import PodBuilder
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


LOOKS = "tandem_reconcile_duration_seconds_count"


async def value(operator: Operator, name: str) -> float:
    """The sum of all samples of a metric."""
    lines = (await operator.ask("/metrics"))[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0] == name)


async def all_is_heard(operator: Operator) -> None:
    """Return when the watches tell of nothing more, and nothing is left to be done."""

    async def told() -> list[float]:
        return [await value(operator, name) for name in ("tandem_watch_events_total", "tandem_queue_depth", LOOKS)]

    before: list[float] = []
    while (now := await told()) != before:
        before = now
        await asyncio.sleep(0.3)


def of_its_set(api: FakeApi, pod: PodBuilder) -> dict[str, Any]:
    """The pod as the StatefulSet that is there makes it."""
    manifest = pod.build()
    stateful_set = api.get("statefulsets", manifest["metadata"]["name"].rpartition("-")[0]) or {}
    revision = stateful_set["spec"]["template"]["metadata"]["labels"][REVISION_LABEL]
    manifest["metadata"]["labels"][REVISION_LABEL] = revision
    owner = {"kind": "StatefulSet", "name": "x", "uid": stateful_set["metadata"]["uid"], "controller": True}
    manifest["metadata"]["ownerReferences"] = [owner]
    return manifest


def peer_states(api: FakeApi, pod: str, of: str) -> list[str]:
    """What the pod's table says of an engine."""
    annotation = (api.get("pods", pod) or {})["metadata"].get("annotations", {}).get(PEERS_ANNOTATION)
    peers = PeerTable.model_validate_json(annotation).peers if annotation else ()
    return [peer.state for peer in peers if peer.pod == of]


async def test_a_change_of_a_pod_is_told_by_one_look_which_no_write_of_its_own_repeats(
    api: FakeApi, tmp_path: Path
) -> None:
    api.put(PLURAL, a_resource().with_prefill(2).with_decode(2).manifest())
    async with running(api, tmp_path) as operator:
        await operator.is_ready()
        await until(lambda: api.get("deployments", "qwen") is not None)
        for pod in [a_ready_pod(role, number) for role in Role for number in range(2)]:
            api.put("pods", of_its_set(api, pod))
        await until(lambda: all(peer_states(api, f"qwen-decode-{n}", "qwen-prefill-0") == ["ready"] for n in range(2)))
        await all_is_heard(operator)

        looks, reads = await value(operator, LOOKS), len(api.reads)
        unready = api.get("pods", "qwen-prefill-0") or {}
        api.put("pods", {**unready, "status": {**unready["status"], "conditions": []}})
        await until(
            lambda: all(peer_states(api, f"qwen-decode-{n}", "qwen-prefill-0") == ["starting"] for n in range(2))
        )
        await all_is_heard(operator)
        read = [path.rpartition("/")[2] for path in api.reads[reads:] if "leases" not in path]
        assert (await value(operator, LOOKS) - looks, read) == (1, ["qwen", "pods"])


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
            while not api.is_watched("pods"):  # noqa: ASYNC110 -- plain data
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
