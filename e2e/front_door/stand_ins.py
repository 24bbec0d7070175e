# SPDX-License-Identifier: Apache-2.0
"""Three stand-ins for decode engines as processes of this machine, which can be killed, frozen and made to fail."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx

from e2e.cluster.progress import wait_until
from e2e.engine.model import MODEL_NAME

HOSTS = ("127.0.0.11", "127.0.0.12", "127.0.0.13")
PORT = 18_300
_ROOT = Path(__file__).parents[2]
WITHIN = 60.0
"""Seconds for a process to start, or a request to be answered, on a machine that is busy."""


class StandIns:
    """Their processes, by host; each listens on `PORT`."""

    def __init__(self) -> None:
        """None runs yet."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *hosts: str, fails: bool = False) -> None:
        """Start these, and return when they answer; those that run already are replaced."""
        for host in hosts:
            self.kill(host)
            more = ["fails"] if fails else []
            self._processes[host] = subprocess.Popen(
                [sys.executable, "-m", "e2e.front_door.stand_in", host, str(PORT), *more], cwd=_ROOT
            )
        for host in hosts:
            wait_until(f"a stand-in at {host}", partial(_answers, host), WITHIN)

    def kill(self, host: str) -> None:
        """SIGKILL; nothing if it doesn't run."""
        if process := self._processes.pop(host, None):
            process.kill()
            process.wait()

    def freeze(self, host: str) -> None:
        """SIGSTOP. The kernel still takes connections to it."""
        self._processes[host].send_signal(signal.SIGSTOP)

    def thaw(self, host: str) -> None:
        """SIGCONT."""
        self._processes[host].send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill all."""
        for host in tuple(self._processes):
            self.kill(host)


@contextmanager
def running(*hosts: str) -> Iterator[StandIns]:
    """Stand-ins at these hosts, while it lasts."""
    engines = StandIns()
    try:
        engines.start(*hosts)
        yield engines
    finally:
        engines.end()


def who_serves(url: str, sessions: Sequence[str]) -> Mapping[str, str]:
    """By session, the host that answers it.

    Raises:
        httpx.HTTPStatusError: a request was refused.
    """
    return {session: host_of(ask(url, session).raise_for_status()) for session in sessions}


def ask(url: str, session: str, path: str = "/v1/chat/completions") -> httpx.Response:
    """One short turn that isn't streamed."""
    body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": "Who is there?"}], "max_tokens": 1}
    return httpx.post(f"{url}{path}", json=body, headers={"x-session-id": session}, timeout=WITHIN)


def host_of(answer: httpx.Response) -> str:
    """Who gave the answer."""
    return str(answer.json()["model"]).partition(":")[0]


def busiest(served: Mapping[str, str]) -> str:
    """The host with the most sessions."""
    return max(HOSTS, key=list(served.values()).count)


def _answers(host: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"http://{host}:{PORT}/health", timeout=5.0).is_success
    return False
