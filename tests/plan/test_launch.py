# SPDX-License-Identifier: Apache-2.0
"""The launch script, run by a real shell with a `python3` that only tells how it was called."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem_connector.contract.types import Role
from tests.builders import a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.made import script

POD = {"TANDEM_POD_UID": "0a1b-2c3d", "VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.7"}
NASTY = ["two words", "it's", 'a "quote"', "$HOME `id` $(id)", "back\\slash", "*", "new\nline", "{}", "é€", "-", ""]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a `python3` first on the PATH, in a path with a space."""
    programs = tmp_path / "fake programs"
    programs.mkdir()
    tell = programs / "tell.py"
    tell.write_text(
        "import json, os, sys\n"
        "if 'vllm' in sys.argv[2]:\n"
        "    print(json.dumps({'argv': sys.argv[1:], 'env': dict(os.environ), 'pid': os.getpid()}))\n"
        "sys.exit('preflight' in sys.argv[2] and 'UNFIT' in os.environ)\n"
    )
    python = programs / "python3"
    # Not the interpreter itself as `#!`, whose path may have spaces.
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(tell))} "$@"\n')
    python.chmod(0o755)
    return programs


def run(
    folder: Path, resource: ResourceBuilder, role: Role = Role.DECODE, *, more: dict[str, str] | None = None
) -> dict[str, Any]:
    """How the engine's Python was called."""
    file = folder / "launch.sh"
    file.write_text(script(resource, role))
    with subprocess.Popen(
        ["sh", str(file)],
        env={"PATH": f"{folder}{os.pathsep}/usr/bin:/bin", **POD, **(more or {})},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    called: dict[str, Any] = json.loads(output)
    assert called["pid"] == process.pid, "the engine must get the signals that are meant for the container"
    return called


def options(called: dict[str, Any]) -> dict[str, str]:
    return dict(argument.split("=", 1) for argument in called["argv"] if argument.startswith("--") and "=" in argument)


def test_the_engine_is_started_with_what_the_resource_says(folder: Path) -> None:
    resource = a_resource().with_tensor(2).with_spec("engine", "blockSize", value=64)
    called = run(folder, resource.with_spec("model", "revision", value="v1"))
    assert called["argv"][:2] == ["-m", "vllm.entrypoints.openai.api_server"]
    given = options(called)
    engine_id = given.pop("--kv-transfer-config.engine_id")
    assert given == {
        "--model": "Qwen/Qwen3-32B",
        "--revision": "v1",
        "--served-model-name": "Qwen3-32B",
        "--tensor-parallel-size": "2",
        "--block-size": "64",
        "--prefix-caching-hash-algo": "sha256_cbor",
        "--shutdown-timeout": "40",
        "--host": "0.0.0.0",
        "--port": "8000",
        "--kv-transfer-config.kv_connector": "TandemConnector",
        "--kv-transfer-config.kv_connector_module_path": "tandem_connector.vllm.connector",
        "--kv-transfer-config.kv_role": "kv_both",
        "--kv-transfer-config.kv_load_failure_policy": "recompute",
        "--kv-transfer-config.kv_connector_extra_config.disaggregate_above_tokens": "256",
        "--kv-transfer-config.kv_connector_extra_config.reverse": "PushAndFetch",
        "--kv-transfer-config.kv_connector_extra_config.patience": "20.0",
        "--kv-transfer-config.kv_connector_extra_config.fetch_min_blocks": "4",
        "--kv-transfer-config.kv_connector_extra_config.landing_share": "0.25",
        "--kv-transfer-config.kv_connector_extra_config.backends+": "UCX",
    }
    assert called["env"]["TANDEM_ENGINE_ID"] == engine_id


def test_ranks_are_started_where_there_is_more_than_one(folder: Path) -> None:
    resource = a_resource().with_data(4, Role.PREFILL)
    assert options(run(folder, resource, Role.PREFILL))["--data-parallel-size"] == "4"
    assert "--data-parallel-size" not in options(run(folder, resource, Role.DECODE))


def test_vllms_own_connector_is_told_nothing_of_the_exchange(folder: Path) -> None:
    given = options(run(folder, a_resource().pulling()))
    transfer = {name: value for name, value in given.items() if name.startswith("--kv-transfer-config")}
    del transfer["--kv-transfer-config.engine_id"]
    assert transfer == {
        "--kv-transfer-config.kv_connector": "NixlConnector",
        "--kv-transfer-config.kv_role": "kv_both",
        "--kv-transfer-config.kv_load_failure_policy": "recompute",
        "--kv-transfer-config.kv_connector_extra_config.backends+": "UCX",
    }
    both_ways = a_resource().with_spec("transfer", value={"protocol": "NixlPull", "reverse": "Fetch"})
    flag = "--kv-transfer-config.kv_connector_extra_config.bidirectional_kv_xfer"
    assert [options(run(folder, both_ways, role))[flag] for role in Role] == ["true", "true"]


def test_every_start_is_another_engine_of_the_same_pod(folder: Path) -> None:
    ids = {run(folder, a_resource())["env"]["TANDEM_ENGINE_ID"] for _ in range(3)}
    assert len(ids) == 3
    assert all(engine_id.startswith("0a1b-2c3d-") for engine_id in ids)


def test_arguments_reach_the_engine_as_they_were_written(folder: Path) -> None:
    resource = a_resource().with_arguments(*NASTY).with_spec("decode", "args", value=["--seed", "7"])
    argv = run(folder, resource)["argv"]
    assert argv[2 : 2 + len(NASTY) + 2] == [*NASTY, "--seed", "7"]


@pytest.mark.parametrize("name", ["a b/it's $HOME `id`", '"; exit 3; "', "x\ny", "{{ 7 * 7 }}"])
def test_a_models_name_cannot_become_shell(folder: Path, name: str) -> None:
    resource = a_resource().with_spec("model", value={"name": "org/m", "servedName": name, "revision": name})
    given = options(run(folder, resource))
    assert (given["--served-model-name"], given["--revision"]) == (name, name)


def test_tandems_options_come_after_the_users(folder: Path) -> None:
    argv = run(folder, a_resource().with_arguments("--served-model=mine"))["argv"]
    assert argv.index("--served-model=mine") < argv.index("--served-model-name=Qwen3-32B")


def test_a_model_on_a_volume_is_served_from_there_under_its_name(folder: Path) -> None:
    volume = {"name": "tiny", "revision": "ignored", "source": {"volume": {"hostPath": "/somewhere"}}}
    given = options(run(folder, a_resource().with_spec("model", value=volume)))
    assert (given["--model"], given["--served-model-name"]) == ("/models", "tiny")
    assert "--revision" not in given


def test_the_backend_is_libfabric_where_there_is_efa(folder: Path) -> None:
    given = options(run(folder, a_resource().on("p5en.48xlarge").with_tensor(8)))
    assert given["--kv-transfer-config.kv_connector_extra_config.backends+"] == "LIBFABRIC"


def test_the_engine_listens_in_the_address_family_of_its_pod(folder: Path) -> None:
    called = run(folder, a_resource(), more={"VLLM_NIXL_SIDE_CHANNEL_HOST": "fd00::7"})
    assert options(called)["--host"] == "::"


@pytest.mark.parametrize(
    ("before", "after"), [({}, "/opt/tandem/connector"), ({"PYTHONPATH": "/a:/b"}, "/opt/tandem/connector:/a:/b")]
)
def test_the_connector_comes_first_on_the_path_that_the_image_has(
    folder: Path, before: dict[str, str], after: str
) -> None:
    assert run(folder, a_resource(), more=before)["env"]["PYTHONPATH"] == after


def test_the_grace_period_of_the_role_decides_how_long_requests_may_finish(folder: Path) -> None:
    resource = a_resource().with_overlay(Role.DECODE, {"spec": {"terminationGracePeriodSeconds": 600}})
    assert options(run(folder, resource, Role.DECODE))["--shutdown-timeout"] == "200"
    assert options(run(folder, resource, Role.PREFILL))["--shutdown-timeout"] == "40"
    assert options(run(folder, resource.pulling(), Role.DECODE))["--shutdown-timeout"] == "400"


def test_without_a_pods_uid_nothing_is_started(folder: Path) -> None:
    file = folder / "launch.sh"
    file.write_text(script(a_resource()))
    done = subprocess.run(
        ["sh", str(file)], env={"PATH": f"{folder}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "TANDEM_POD_UID" in done.stderr
    assert done.stdout == ""


def test_an_image_that_lacks_something_starts_no_engine(folder: Path) -> None:
    with pytest.raises(AssertionError):
        run(folder, a_resource(), more={"UNFIT": "1"})
