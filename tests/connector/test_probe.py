# SPDX-License-Identifier: Apache-2.0
"""The probe, run as the kubelet runs it, against an engine's two doors and what it says of itself."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import socket
from typing import ClassVar

import pytest

from tandem_connector import probe
from tandem_connector.contract.environment import DATA_PARALLEL, HTTP_PORT, RANK_SUFFIX, STATUS_FILE
from tandem_connector.vllm.status import StatusFile


class Engine(BaseHTTPRequestHandler):
    """Answers `/health` with `status`."""

    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def http() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def side_channel() -> Iterator[int]:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def test_an_engine_that_answers_at_both_doors_is_well(http: int, side_channel: int) -> None:
    probe.check("127.0.0.1", http, side_channel)


def test_an_engine_without_its_side_channel_is_not(http: int, closed: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        probe.check("127.0.0.1", http, closed)


def test_a_server_without_the_side_channel_of_one_of_its_ranks_is_not(
    http: int, side_channel: int, closed: int
) -> None:
    probe.check("127.0.0.1", http, side_channel, side_channel)
    with pytest.raises(ConnectionRefusedError):
        probe.check("127.0.0.1", http, side_channel, closed)


def test_as_a_program_it_looks_at_the_status_of_each_rank(closed: int, tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    StatusFile(path)
    for rank, said in ((1, "too many blocks"), (2, "refused")):
        StatusFile(tmp_path / f"status.json{RANK_SUFFIX}{rank}").change(unhealthy="too many blocks", since=1.0)
        done = subprocess.run(
            [sys.executable, "-I", "-S", probe.__file__],
            env={
                "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
                "VLLM_NIXL_SIDE_CHANNEL_PORT": str(closed),
                STATUS_FILE: str(path),
                DATA_PARALLEL: "2",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, said in done.stderr) == (1, True)
        (tmp_path / f"status.json{RANK_SUFFIX}{rank}").unlink()


def test_an_engine_without_its_server_is_not(closed: int, side_channel: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        probe.check("127.0.0.1", closed, side_channel)


def test_an_engine_that_says_that_it_is_dead_is_not(
    http: int, side_channel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "status", 503)
    with pytest.raises(Exception, match="/health answered 503"):
        probe.check("127.0.0.1", http, side_channel)


def test_an_engine_that_calls_itself_unwell_is_not_ready_and_is_kept_for_long(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    file = StatusFile(path)
    probe.check_status(str(path), 0)
    file.change(unhealthy="too many blocks", since=time.monotonic() - 60)
    with pytest.raises(probe.UnwellError, match="too many blocks"):
        probe.check_status(str(path), 0)
    probe.check_status(str(path), probe._UNWELL_SECONDS)
    with pytest.raises(probe.UnwellError):
        probe.check_status(str(path), 59)
    file.change(unhealthy="", since=None)
    probe.check_status(str(path), 0)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}"])
def test_an_engine_that_says_nothing_of_itself_is_judged_by_its_doors(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "status.json"
    if content is not None:
        path.write_text(content)
    probe.check_status(str(path), 0)


@pytest.mark.parametrize(("asked", "said"), [((), "too many blocks"), (("--to-live",), "refused")])
def test_as_a_program_it_looks_at_the_status_as_it_is_told(
    closed: int, tmp_path: Path, asked: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "status.json"
    StatusFile(path).change(unhealthy="too many blocks", since=time.monotonic())
    done = subprocess.run(
        [sys.executable, "-I", "-S", probe.__file__, *asked],
        env={
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(closed),
            "TANDEM_STATUS_FILE": str(path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, said in done.stderr) == (1, True)


def test_as_a_program_it_says_in_one_line_what_is_wrong_without_importing_anything_of_ours(closed: int) -> None:
    file = Path(probe.__file__)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(file)],
        env={"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(closed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("127.0.0.1: ")


def test_it_knocks_at_the_port_of_the_contract() -> None:
    assert probe._HTTP_PORT == HTTP_PORT
