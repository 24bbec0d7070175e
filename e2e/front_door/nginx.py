# SPDX-License-Identifier: Apache-2.0
"""Debian's nginx as a process of this machine, with the files of `manifests/samples/nginx-front-door.yaml`."""

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.front_door.stand_ins import PORT
from e2e.images import debian
from e2e.images.catalogue import NGINX

SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "nginx-front-door.yaml"
_HOST, _PORT = "127.0.0.10", 18_303

URL = f"http://{_HOST}:{_PORT}"
_GETENT = """#!/bin/sh
while read -r address; do
    echo "$address STREAM $2"
    echo "$address DGRAM"
done < {addresses}
"""
"""In place of DNS."""
_TURN = re.compile(r'session="(?P<session>[^"]*)" .* engines="(?P<engines>[^"]*)"')


@dataclass(frozen=True)
class Turn:
    """What nginx logs of one."""

    session: str
    engines: tuple[str, ...]
    """The addresses of all that were asked; the last one's answer was passed on."""


def turns(log: Iterable[str]) -> list[Turn]:
    """All in these lines."""
    return [
        Turn(found["session"], tuple(each.rpartition(":")[0] for each in found["engines"].split(", ")))
        for found in map(_TURN.search, log)
        if found
    ]


def retries(log: Iterable[str]) -> int:
    """How often another engine was asked for a turn."""
    return sum(len(turn.engines) - 1 for turn in turns(log))


def known(log: Iterable[str]) -> set[str]:
    """The addresses that nginx was last told of."""
    told = [line.split()[1:] for line in log if line.startswith("engines:")]
    return set(told[-1]) if told else set()


class Nginx:
    """What a pod of the sample runs, in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        """Put nginx and its files there; nothing runs yet."""
        self._bin, self._files, self._tmp = (folder / name for name in ("bin", "files", "tmp"))
        for each in (self._bin, self._files, self._tmp):
            each.mkdir()
        self._addresses = folder / "addresses"
        self.output = folder / "output"
        self.turns = self._tmp / "turns"
        """A line for each turn."""
        self.process: subprocess.Popen[bytes] | None = None
        self._program("nginx", _nginx(folder / "root"))
        self._program("getent", _GETENT.format(addresses=self._addresses))
        for name, content in _config_map().items():
            (self._files / name).write_text(self._here(content))
        self.know()

    def know(self, *addresses: str) -> None:
        """What DNS says from now on."""
        unfinished = self._addresses.with_suffix(".unfinished")
        unfinished.write_text("".join(f"{address}\n" for address in addresses))
        unfinished.replace(self._addresses)

    def knows(self) -> set[str]:
        """The addresses that it was last told of."""
        return known(self.output.read_text().splitlines())

    def retries(self) -> int:
        """How often another engine was asked for a turn."""
        return retries(self.turns.read_text().splitlines())

    def end(self) -> None:
        """Tell it to end, as a kubelet does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The script runs, until it is told to end, at the latest with the context."""
        environment = {**os.environ, "PATH": f"{self._bin}:{os.environ['PATH']}", "ENGINES": "engines"}
        command = ["sh", str(self._files / "start.sh")]
        with (
            self.output.open("wb") as output,
            subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT) as self.process,
        ):
            try:
                yield
            finally:
                self.end()

    def _here(self, content: str) -> str:
        """With the folders and ports of this machine."""
        for of_the_pod, of_this_machine in (
            (" /tmp/", f" {self._tmp}/"),
            ("/dev/stdout", str(self.turns)),
            ("/etc/nginx-front-door/", f"{self._files}/"),
            ("listen 8000;", f"listen {_HOST}:{_PORT};"),
            ("$address:8000", f"$address:{PORT}"),
        ):
            content = content.replace(of_the_pod, of_this_machine)
        return content

    def _program(self, name: str, script: str) -> None:
        program = self._bin / name
        program.write_text(script)
        program.chmod(0o755)


def _config_map() -> dict[str, str]:
    manifests = yaml.safe_load_all(SAMPLE.read_text())
    content: dict[str, str] = next(each["data"] for each in manifests if each["kind"] == "ConfigMap")
    return content


def _nginx(root: Path) -> str:
    """A script that runs Debian's nginx with Debian's libraries, whatever this machine has."""
    for package in debian.fetched(NGINX.packages):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    libraries = [root / "lib" / "x86_64-linux-gnu", root / "usr" / "lib" / "x86_64-linux-gnu"]
    paths = ":".join(map(str, libraries))
    loader = libraries[0] / "ld-linux-x86-64.so.2"
    return f'#!/bin/sh\nexec {loader} --library-path {paths} {root}/usr/sbin/nginx "$@"\n'
