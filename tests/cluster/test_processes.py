# SPDX-License-Identifier: Apache-2.0
"""A cluster's processes are found by their mark, and nobody else's is ended."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster.interface import ClusterError
from e2e.cluster.local import processes
from e2e.cluster.local.processes import Process

SLEEP = ["sleep", "600"]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "a state"
    folder.mkdir()
    yield folder
    processes.end(folder)


def start(state: Path, name: str, argv: list[str]) -> None:
    processes.start(name, argv, state, state / "logs" / f"{name}.log")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 20 s"
        time.sleep(0.02)


def test_a_process_is_found_by_its_name_until_it_is_ended(state: Path) -> None:
    start(state, "etcd", SLEEP)

    (found,) = processes.running(state)
    assert found.name == "etcd"
    # The child exists a moment before it has its session.
    until(lambda: os.getsid(found.pid) == found.pid)

    processes.end(state)
    assert processes.running(state) == []


def test_only_those_of_one_name_are_ended_when_a_name_is_given(state: Path) -> None:
    start(state, "etcd", SLEEP)
    start(state, "kwok", SLEEP)

    processes.end(state, only="kwok")

    assert [each.name for each in processes.running(state)] == ["etcd"]


def test_the_children_of_a_process_are_ended_with_it(state: Path) -> None:
    start(state, "containerd", ["sh", "-c", "sleep 600 & sleep 600 & exec sleep 600"])
    until(lambda: len(processes.running(state)) == 3)

    processes.end(state)

    assert processes.running(state) == []


def test_the_processes_of_another_cluster_live_on(state: Path, tmp_path: Path) -> None:
    other = tmp_path / "a state of another"
    other.mkdir()
    start(other, "etcd", SLEEP)
    try:
        processes.end(state)
        assert [each.name for each in processes.running(other)] == ["etcd"]
    finally:
        processes.end(other)


def test_a_process_that_got_a_reused_id_lives_on(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of an ended process of ours now belongs to somebody else's, which has no mark."""
    with subprocess.Popen(SLEEP) as stranger:
        looks = iter([[Process("etcd", stranger.pid)], [], []])
        monkeypatch.setattr(processes, "running", lambda _: next(looks))
        try:
            processes.end(state)
            assert stranger.poll() is None
        finally:
            monkeypatch.undo()
            stranger.kill()


def test_a_process_that_dies_by_itself_is_no_longer_found(state: Path) -> None:
    start(state, "etcd", SLEEP)
    os.kill(processes.running(state)[0].pid, signal.SIGKILL)

    until(lambda: processes.running(state) == [])


def test_what_a_process_says_is_appended_to_its_log(state: Path) -> None:
    log = state / "logs" / "speaker.log"

    start(state, "speaker", ["sh", "-c", "echo one; echo two >&2"])
    until(lambda: processes.running(state) == [])
    start(state, "speaker", ["echo", "three"])
    until(lambda: processes.running(state) == [])

    assert log.read_text() == "one\ntwo\nthree\n"


def test_a_program_gets_nothing_of_the_callers_environment_but_what_it_needs(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")

    start(state, "speaker", ["env"])
    until(lambda: processes.running(state) == [])

    names = {line.partition("=")[0] for line in (state / "logs" / "speaker.log").read_text().splitlines()}
    assert names == {"HOME", "PATH", "TANDEM_CLUSTER_PROCESS", "TANDEM_CLUSTER_STATE"}


def test_what_does_not_end_is_named(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "running", lambda _: [Process("kubelet", 4_000_000)])

    with pytest.raises(ClusterError, match=r"don't end.*kubelet \(4000000\)"):
        processes.end(state, timeout=0)

    monkeypatch.undo()


def test_a_process_whose_program_is_still_being_read_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "exe").symlink_to("/usr/bin/anything")
    environment = tmp_path / "environ"
    environment.touch()
    begins = threading.Timer(0.1, lambda: environment.write_bytes(b"A=1\0"))
    begins.start()
    assert processes.environment_of(tmp_path, within=20.0) == b"A=1\0"
    begins.join()


def test_what_has_no_program_has_no_environment(tmp_path: Path) -> None:
    (tmp_path / "environ").touch()
    assert processes.environment_of(tmp_path, within=20.0) == b""
