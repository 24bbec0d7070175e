# SPDX-License-Identifier: Apache-2.0
"""Starting programs: the one that doesn't work is named, with the end of its log."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.interface import ClusterError
from e2e.cluster.local import launch, processes
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.program import Program


class Answers(http.server.BaseHTTPRequestHandler):
    """200 for /healthz, 503 for the rest."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002  the name is the base class's
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    yield Layout(tmp_path)
    processes.end(tmp_path)


def test_programs_run_once_it_returns(server: str, layout: Layout) -> None:
    launch.launch(
        [Program("etcd", ["sleep", "600"]), Program("kubelet", ["sleep", "600"], f"{server}/healthz")], layout, None
    )

    launch.require_alive(["etcd", "kubelet"], layout)


def test_a_program_that_ends_is_reported_with_what_it_said_last(server: str, layout: Layout) -> None:
    said = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo line $i; done; echo no such flag >&2"

    with pytest.raises(ClusterError) as caught:
        launch.launch([Program("kubelet", ["sh", "-c", said], f"{server}/not-yet")], layout, None)

    assert "kubelet has ended" in str(caught.value)
    assert str(layout.log("kubelet")) in str(caught.value)
    assert "no such flag" in str(caught.value)
    assert "line 20" in str(caught.value)
    assert "line 3\n" not in str(caught.value)


def test_a_program_that_never_works_is_reported_with_its_log(
    server: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_START_TIMEOUT", 0.3)

    with pytest.raises(ClusterError, match=r"gave up waiting for kubelet to answer(.|\n)*still thinking"):
        launch.launch(
            [Program("kubelet", ["sh", "-c", "echo still thinking; sleep 600"], f"{server}/not-yet")], layout, None
        )


def test_a_program_that_is_not_there_is_named(layout: Layout) -> None:
    with pytest.raises(ClusterError, match="kubelet"):
        launch.launch([Program("kubelet", ["no-such-program"], "http://127.0.0.1:1/")], layout, None)


def test_only_200_counts_as_an_answer(server: str, tmp_path: Path) -> None:
    assert launch.answers(f"{server}/healthz", tmp_path / "unused")
    assert not launch.answers(f"{server}/other", tmp_path / "unused")
    assert not launch.answers("http://127.0.0.1:1/", tmp_path / "unused")
    assert not launch.answers("https://127.0.0.1:1/", tmp_path / "a missing authority")
