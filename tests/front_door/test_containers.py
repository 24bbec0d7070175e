# SPDX-License-Identifier: Apache-2.0
"""Signals reach the processes of one container, by the control groups that Linux tells of, and nobody else."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.front_door.containers import signal_container


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    yield processes
    for each in processes:
        each.kill()
        each.wait()


def tell(folder: Path, process: subprocess.Popen[bytes], group: str, title: str) -> None:
    """As Linux tells of it, were it in this group and called so."""
    (folder / str(process.pid)).mkdir()
    (folder / str(process.pid) / "cgroup").write_text(f"0::/tandem/burstable/pod-1/{group}\n")
    (folder / str(process.pid) / "cmdline").write_text(title)


def a_pod(**status: Any) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"name": "engine", **status}]}}


def test_all_processes_of_the_container_are_killed_or_only_those_of_a_title(
    tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    server, computes, other = sleepers
    tell(tmp_path, server, "abc", "python3\0-m\0server")
    tell(tmp_path, computes, "abc", "VLLM::EngineCore")
    tell(tmp_path, other, "def", "VLLM::EngineCore")
    (tmp_path / "meminfo").touch()
    (tmp_path / "1").mkdir()
    pod = a_pod(containerID="containerd://abc")

    assert signal_container(pod, "engine", signal.SIGKILL, "EngineCore", processes=tmp_path) == 1
    assert computes.wait(10) == -signal.SIGKILL
    assert server.poll() is None
    assert signal_container(pod, "engine", signal.SIGKILL, processes=tmp_path) == 2
    assert server.wait(10) == -signal.SIGKILL
    assert other.poll() is None


@pytest.mark.parametrize("pod", [{"status": {}}, a_pod(), a_pod(containerID="")], ids=["none", "waits", "empty"])
def test_a_container_that_was_never_started_is_an_error_and_not_all_processes(
    tmp_path: Path, sleepers: list[subprocess.Popen[bytes]], pod: dict[str, Any]
) -> None:
    tell(tmp_path, sleepers[0], "abc", "python3")
    with pytest.raises(LookupError):
        signal_container(pod, "engine", signal.SIGKILL, processes=tmp_path)
    assert sleepers[0].poll() is None
