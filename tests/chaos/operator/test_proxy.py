# SPDX-License-Identifier: Apache-2.0
"""What stands between an operator and the API server, and fails when it is told to."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from e2e.chaos.operator.proxy import Hold, Mute, Proxy, Refuse, Reset, Slow
from e2e.cluster.local.pki import Authority

PODS = "/api/v1/namespaces/chaos/pods"


class Upstream(BaseHTTPRequestHandler):
    """Answers each request with what it was asked, and a watch with a line at once and another one a moment later."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, bytes]]

    def do_GET(self) -> None:
        self._note(b"")
        if "watch" in self.path:
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            for line in (b"first\n", b"second\n"):
                self.wfile.write(line)
                self.wfile.flush()
                time.sleep(0.2)
            self.close_connection = True
        else:
            self._answer(self.headers.get("Authorization", "") + " " + self.path)

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._note(body)
        self._answer(body.decode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def _note(self, body: bytes) -> None:
        self.seen.append((self.command, self.path, body))

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def seen() -> list[tuple[str, str, bytes]]:
    Upstream.seen = []
    return Upstream.seen


@pytest.fixture
def proxy(seen: list[tuple[str, str, bytes]], tmp_path: Path) -> Iterator[Proxy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "ca.crt").write_bytes(Authority.new().certificate)
    with Proxy("first", f"http://127.0.0.1:{server.server_port}", tmp_path / "ca.crt", seed=1) as proxy:
        yield proxy
    server.shutdown()
    server.server_close()


def ask(proxy: Proxy, path: str, body: str | None = None) -> str:
    request = urllib.request.Request(proxy.url + path, headers={"Authorization": "Bearer token"})
    if body is not None:
        request.data, request.method = body.encode(), "PATCH"
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_without_trouble_requests_come_and_go_as_they_are_and_are_noted(
    proxy: Proxy, seen: list[tuple[str, str, bytes]]
) -> None:
    assert (
        ask(proxy, f"{PODS}?labelSelector=a%3Db,c%20in%20(d)")
        == f"Bearer token {PODS}?labelSelector=a%3Db,c%20in%20(d)"
    )
    assert ask(proxy, f"{PODS}/a", "{}") == "{}"
    assert seen[1] == ("PATCH", f"{PODS}/a", b"{}")
    assert [(each.method, each.path, each.by, each.status) for each in proxy.asked()] == [
        ("GET", PODS, "first", 200),
        ("PATCH", f"{PODS}/a", "first", 200),
    ]


def test_what_is_refused_does_not_reach_the_api_server(proxy: Proxy, seen: list[tuple[str, str, bytes]]) -> None:
    proxy.trouble = Refuse((429,), retry_after=2)
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(proxy, PODS)
    assert (refused.value.code, refused.value.headers["Retry-After"]) == (429, "2")
    assert json.load(refused.value)["code"] == 429
    assert seen == []
    proxy.trouble = Refuse((503,), only_watches=True)
    assert ask(proxy, PODS)
    with pytest.raises(urllib.error.HTTPError):
        ask(proxy, f"{PODS}?watch=true")


def test_a_share_of_requests_is_refused(proxy: Proxy) -> None:
    proxy.trouble = Refuse((500,), share=0.5)
    answers = [_status(proxy) for _ in range(40)]
    assert 5 < answers.count(500) < 35
    assert answers.count(200) == 40 - answers.count(500)


def _status(proxy: Proxy) -> int:
    try:
        ask(proxy, PODS)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def test_a_reset_connection_leaves_it_open_whether_the_api_server_has_done_what_was_asked(
    proxy: Proxy, seen: list[tuple[str, str, bytes]]
) -> None:
    proxy.trouble = Reset()
    with pytest.raises((ConnectionError, urllib.error.URLError)):
        ask(proxy, f"{PODS}/a", "{}")
    assert seen == []
    proxy.trouble = Reset(passed_on=True)
    with pytest.raises((ConnectionError, urllib.error.URLError)):
        ask(proxy, f"{PODS}/a", "{}")
    assert len(seen) == 1


def test_what_is_slow_comes_later(proxy: Proxy) -> None:
    proxy.trouble = Slow(0.4)
    began = time.monotonic()
    assert ask(proxy, PODS)
    assert time.monotonic() - began >= 0.2


def test_an_answer_to_a_list_of_pods_is_held_until_it_is_let_go(proxy: Proxy) -> None:
    proxy.trouble = Hold()
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(ask(proxy, PODS)))
    asking.start()
    _until(lambda: proxy.held == 1)
    assert ask(proxy, f"{PODS}/a"), "all else is answered"
    assert answers == []
    proxy.trouble = None
    asking.join(10)
    assert len(answers) == 1
    assert proxy.held == 0


def test_a_watch_that_is_mute_tells_nothing_until_it_may(proxy: Proxy) -> None:
    proxy.trouble = Mute()
    told: list[str] = []
    asking = threading.Thread(target=lambda: told.append(ask(proxy, f"{PODS}?watch=true")))
    asking.start()
    asking.join(1.0)
    assert told == []
    proxy.trouble = None
    asking.join(10)
    assert told == ["first\nsecond\n"]


def test_a_watch_can_be_cut(proxy: Proxy) -> None:
    proxy.trouble = Mute()
    broken: list[Exception] = []

    def watch() -> None:
        try:
            ask(proxy, f"{PODS}?watch=true")
        except (OSError, urllib.error.URLError) as error:
            broken.append(error)

    asking = threading.Thread(target=watch)
    asking.start()
    _until(lambda: proxy._watching)
    proxy.cut_watches()
    asking.join(10)
    proxy.trouble = None
    assert len(broken) == 1


def _until(is_so: Any) -> None:
    for _ in range(500):
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail("it never came")
