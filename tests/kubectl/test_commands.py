# SPDX-License-Identifier: Apache-2.0
"""Commands against an API server in memory."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tandem_operator.kube.kinds import RESOURCE
from tandem_operator.kubectl.__main__ import main
from tandem_operator.kubectl.arguments import parser
from tandem_operator.kubectl.commands import BY_NAME
from tandem_operator.kubectl.exits import Exit, Failed
from tests.builders import a_ready_pod
from tests.kube.fake_api import FakeApi
from tests.kube.serving import new_api, serve
from tests.kubectl.builders import NOT_READY, READY, metrics_text, put_engine, with_conditions


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    api = new_api()
    async with serve(api):
        yield api


def kubeconfig(api: FakeApi, folder: Path) -> str:
    path = folder / "config"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "models"}}],
        "clusters": [{"name": "here", "cluster": {"server": api.address}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


async def run(api: FakeApi, folder: Path, *words: str) -> Exit:
    options = parser().parse_args([*words, "--kubeconfig", kubeconfig(api, folder)])
    return await BY_NAME[options.command](options)


def put(api: FakeApi, manifest: dict[str, Any]) -> None:
    api.put(RESOURCE.plural, manifest)


async def test_status_tells_all_resources_of_the_contexts_namespace(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(api, with_conditions(READY).manifest())
    put(api, with_conditions(READY).named("elsewhere").in_namespace("other").manifest())
    assert await run(api, tmp_path, "status", "-o", "json") == Exit.WELL
    (view,) = json.loads(capsys.readouterr().out)
    assert (view["namespace"], view["name"], view["ready"]) == ("models", "qwen", True)


async def test_explain_ends_by_whether_the_resource_is_ready(api: FakeApi, tmp_path: Path) -> None:
    put(api, with_conditions(READY).manifest())
    assert await run(api, tmp_path, "explain", "qwen") == Exit.WELL
    put(api, with_conditions(NOT_READY).manifest())
    assert await run(api, tmp_path, "explain", "qwen") == Exit.NOT_WELL


async def test_looking_writes_nothing(api: FakeApi, tmp_path: Path) -> None:
    put(api, with_conditions(READY).manifest())
    for words in (["status"], ["explain", "qwen"], ["topology", "qwen"]):
        await run(api, tmp_path, *words)
    assert api.writes == []


async def test_a_resource_that_is_not_there_is_not_found(api: FakeApi, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no DisaggregatedInference qwen in namespace models") as failed:
        await run(api, tmp_path, "explain", "qwen")
    assert failed.value.exit is Exit.NOT_FOUND


async def test_a_cluster_without_tandem_is_told_apart_from_a_missing_resource(tmp_path: Path) -> None:
    api = new_api(without=(RESOURCE,))
    async with serve(api):
        with pytest.raises(Failed, match="install Tandem's chart"):
            await run(api, tmp_path, "status")


def test_a_cluster_that_is_not_there_has_an_exit_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--kubeconfig", str(tmp_path / "none")]) == Exit.NO_CLUSTER
    assert "no access to a cluster" in capsys.readouterr().err


def test_a_wrong_command_line_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["unheard"])
    assert ended.value.code == Exit.USAGE


async def test_ui_once_looks_twice_and_tells_programs(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_operator.kubectl.commands.LOOK_EVERY", 1.1)
    put(api, with_conditions(READY).manifest())
    put_engine(api, a_ready_pod())
    looks = (metrics_text(tokens={"computed": tokens}) for tokens in (0, 1000))
    api.answer("GET", "/proxy/metrics", *((200, {}, text) for text in looks))
    assert await run(api, tmp_path, "ui", "qwen", "--once", "-o", "json") == Exit.WELL
    (engine,) = json.loads(capsys.readouterr().out)["engines"]
    assert engine["rates"]["tokens"]["computed"] > 0
    assert api.writes == []


async def test_topology_asks_engines_for_bytes_only_when_it_is_to(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(api, with_conditions(READY).manifest())
    put_engine(api, a_ready_pod())
    assert await run(api, tmp_path, "topology", "qwen", "-o", "json") == Exit.WELL
    assert json.loads(capsys.readouterr().out)["moved"] is None
    api.answer("GET", "/proxy/metrics", (403, {}, "forbidden"))
    assert await run(api, tmp_path, "topology", "qwen", "--bytes", "-o", "json") == Exit.WELL
    told = json.loads(capsys.readouterr().out)
    assert told["moved"] == []
    assert ["qwen-decode-0" in words for words in told["unread"]] == [True]
    assert api.writes == []


async def test_ui_serves_until_it_is_ended(api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(api, with_conditions(READY).manifest())
    serving = asyncio.create_task(run(api, tmp_path, "ui", "qwen"))
    said = ""
    while " shows models/qwen" not in said:
        await asyncio.sleep(0.01)
        said += capsys.readouterr().out
    url = said.split()[0]
    async with aiohttp.ClientSession() as session, session.get(f"{url}state") as answer:
        assert (await answer.json())["name"] == "qwen"
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)


async def test_ui_has_json_only_of_one_look(api: FakeApi, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="--once") as failed:
        await run(api, tmp_path, "ui", "qwen", "-o", "json")
    assert failed.value.exit is Exit.USAGE


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_ui_takes_ports_only(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["ui", "qwen", f"--port={port}"])
    assert "is no port" in capsys.readouterr().err
