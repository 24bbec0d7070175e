# SPDX-License-Identifier: Apache-2.0
"""`bench` with an API server in memory and a front door that streams."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tandem_operator.kube.kinds import RESOURCE
from tandem_operator.kubectl.arguments import parser
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.terminal.bench_progress import bench_progress
from tandem_operator.kubectl.views.bench import Turn
from tandem_operator.kubectl.views.bench_plan import Plan
from tests.builders import a_ready_pod
from tests.kube.fake_api import FakeApi
from tests.kube.serving import new_api, serve
from tests.kubectl.builders import READY, metrics_text, put_engine, with_conditions
from tests.kubectl.streaming_door import Door, opened
from tests.kubectl.test_commands import run

SMALL = ("bench", "qwen", "--conversations", "2", "--turns", "2", "--first-words", "9", "--words", "3")


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    api = new_api()
    api.put(RESOURCE.plural, with_conditions(READY).manifest())
    put_engine(api, a_ready_pod())
    async with serve(api):
        yield api


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        yield door


def a_kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str, then: str = "time.sleep(60)") -> Path:
    """A program of that name, first on `PATH`, that notes its arguments, says a line and goes on so."""
    noted = folder / "noted"
    program = folder / "kubectl"
    program.write_text(
        f"#!{sys.executable}\nimport json, pathlib, sys, time\n"
        f"pathlib.Path({str(noted)!r}).write_text(json.dumps(sys.argv[1:]))\n"
        f"print({said!r}, flush=True)\n{then}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return noted


async def test_it_tells_turns_by_depth_and_what_engines_counted_meanwhile(
    api: FakeApi, door: Door, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = (metrics_text(tokens={"computed": tokens}) for tokens in (10, 1010))
    api.answer("GET", "/proxy/metrics", *((200, {}, text) for text in looks))
    assert await run(api, tmp_path, *SMALL, "--url", f"{door.url}/v1/", "-o", "json") == Exit.WELL
    view = json.loads(capsys.readouterr().out)
    assert [(each["depth"], each["promptTokens"], each["answered"]) for each in view["depths"]] == [
        (1, 100, 2),
        (2, 300, 2),
    ]
    (role,) = view["engines"]["roles"]
    assert (role["role"], role["promptTokens"]) == ("decode", {"computed": 1000})
    assert {body["model"] for body in door.bodies} == {view["model"]}
    assert api.writes == []


async def test_a_turn_that_fails_makes_it_end_not_well_and_engines_that_cannot_be_read_do_not(
    api: FakeApi, door: Door, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(api, tmp_path, *SMALL, "--url", door.url) == Exit.WELL
    out, err = capsys.readouterr()
    assert "counters not told: qwen-decode-0: " in out
    assert "conversation 2 of 2: 2 turns answered" in err
    door.behave = lambda _: "503"
    assert await run(api, tmp_path, *SMALL, "--url", door.url) == Exit.NOT_WELL
    assert "ended in its turn 1: HTTP 503" in capsys.readouterr().err


async def test_a_seed_is_told_and_says_the_same_again_and_else_no_two_runs_share_a_prefix(
    api: FakeApi, door: Door, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def beginnings(*options: str) -> set[str]:
        door.bodies.clear()
        await run(api, tmp_path, *SMALL, "--url", door.url, *options)
        return {body["messages"][0]["content"][:16] for body in door.bodies}

    first = await beginnings()
    seed = capsys.readouterr().err.split()[1]
    assert first & await beginnings() == set()
    assert await beginnings("--seed", seed) == first


async def test_by_default_kubectl_forwards_a_port_to_the_service_with_the_key_untouched(
    api: FakeApi,
    door: Door,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    port = door.url.rpartition(":")[2]
    said = f"Warning: your token is old\nForwarding from 127.0.0.1:{port} -> 8000\nlost connection to pod"
    noted = a_kubectl(tmp_path, monkeypatch, said)
    assert await run(api, tmp_path, *SMALL, "--context", "here") == Exit.WELL
    arguments = json.loads(noted.read_text())
    assert arguments[:3] == ["port-forward", "service/qwen", ":8000"]
    assert arguments[arguments.index("--namespace") + 1] == "models"
    assert arguments[arguments.index("--context") + 1] == "here"
    assert "--kubeconfig" in arguments
    assert {headers["authorization"] for headers in door.headers} == {"Bearer secret"}
    assert "kubectl port-forward: lost connection to pod" in capsys.readouterr().out


async def test_a_kubectl_that_cannot_forward_is_told_in_its_own_words(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_kubectl(tmp_path, monkeypatch, "error: services qwen not found", "sys.exit(1)")
    with pytest.raises(Failed, match="service/qwen: error: services qwen not found") as failed:
        await run(api, tmp_path, *SMALL)
    assert failed.value.exit is Exit.NO_CLUSTER


async def test_without_kubectl_the_way_out_is_named(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failed, match="name the front door by --url") as failed:
        await run(api, tmp_path, *SMALL)
    assert failed.value.exit is Exit.USAGE


async def test_what_was_measured_is_told_also_when_the_resource_is_gone_at_the_end(
    api: FakeApi, door: Door, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def delete(_: list[dict[str, str]]) -> str:
        if api.get(RESOURCE.plural, "qwen"):
            api.remove(RESOURCE.plural, "qwen")
        return "well"

    door.behave = delete
    api.answer("GET", "/proxy/metrics", (200, {}, metrics_text(tokens={"computed": 1})))
    assert await run(api, tmp_path, *SMALL, "--url", door.url) == Exit.WELL
    assert "no DisaggregatedInference qwen" in capsys.readouterr().out


def test_on_a_terminal_bars_say_how_many_turns_ended_and_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    plan = Plan(seed=5, conversations=2, turns=1, first_words=1, words=1, max_tokens=1)
    with bench_progress(plan) as told:
        told(Turn(conversation=1, depth=1, first_token=0.25))
        told(Turn(conversation=2, depth=1, error="HTTP 503"))
    out, err = capsys.readouterr()
    assert out == "", "standard output is for the report alone"
    assert "2/2" in re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", err)
    assert "1 errors" in err


@pytest.mark.parametrize("option", ["--turns=0", "--words=x", "--timeout=0", "--timeout=nan", "--url=host:8000"])
def test_what_cannot_be_meant_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["bench", "qwen", option])
    assert ended.value.code == Exit.USAGE
    assert "is no " in capsys.readouterr().err
