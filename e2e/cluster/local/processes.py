# SPDX-License-Identifier: Apache-2.0
"""The cluster's processes, each of which carries the name of its cluster and its own in its environment.

That mark is what they are found by. It is there from the moment of the fork and is inherited, so no process is missed
when the program that started it was killed before it could note a process id; and a process that got a reused id
doesn't have it, so nobody else's process is ever ended.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.interface import ClusterError

STATE_MARK = "TANDEM_CLUSTER_STATE"
NAME_MARK = "TANDEM_CLUSTER_PROCESS"

_PROC = Path("/proc")
_BEGINS_WITHIN = 0.5
"""Seconds that a program may take to be read from a slow disk before its process has an environment."""


@dataclass(frozen=True)
class Process:
    """A living process of a cluster. Several may have one name: a program's children have their parent's."""

    name: str
    pid: int


def start(name: str, argv: list[str], state: Path, log: Path) -> None:
    """Start a program in a session of its own, so that it outlives the caller; its output is appended to `log`.

    The caller doesn't become its parent and need not reap it.

    Raises:
        ClusterError: The program is not there.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/")}
    # Debian keeps iptables and ip in the sbin folders, which a user's PATH may lack.
    environment["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"
    environment |= {STATE_MARK: str(state), NAME_MARK: name}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        launched = subprocess.run(
            ["setsid", "--fork", *argv],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if launched.returncode:
        raise ClusterError(f"{name} could not be started: {' '.join(argv)}")


def running(state: Path) -> list[Process]:
    """The living processes of the cluster that has its state in `state`."""
    return list(_find(state, _read_environments()))


def _read_environments() -> Iterator[tuple[int, bytes]]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), environment_of(entry)
            except OSError:
                continue  # Ended meanwhile, or another user's.


def environment_of(process: Path, within: float = _BEGINS_WITHIN) -> bytes:
    """The environment in a process's folder below /proc, as the kernel has it.

    A process that is just being replaced by another program (execve) has none for as long as the program's file takes to
    be read, and must not be taken for one that has ended. Kernel threads and the dead have neither that nor a program.

    Raises:
        OSError: it has ended, or is another user's.
    """
    deadline = time.monotonic() + within
    while not (environment := (process / "environ").read_bytes()) and time.monotonic() < deadline:
        try:
            (process / "exe").readlink()
        except OSError:
            break
        time.sleep(0.002)
    return environment


def _find(state: Path, environments: Iterable[tuple[int, bytes]]) -> Iterator[Process]:
    for pid, raw in environments:
        variables = _parse(raw)
        if variables.get(STATE_MARK) == str(state):
            yield Process(variables.get(NAME_MARK, ""), pid)


def _parse(raw: bytes) -> Mapping[str, str]:
    pairs = (item.partition("=") for item in os.fsdecode(raw).split("\0"))
    return {name: value for name, separator, value in pairs if separator}


def end(state: Path, *, only: str | None = None, timeout: float = 20.0) -> None:
    """Kill the cluster's processes, or those called `only`, and return when they are gone.

    They get no chance to finish: what they would save is removed next, and some take minutes over it.

    Raises:
        ClusterError: Some did not die, as happens to a process that hangs in the kernel.
    """
    deadline = time.monotonic() + timeout
    while victims := [process for process in running(state) if only in {None, process.name}]:
        if time.monotonic() > deadline:
            listed = ", ".join(f"{victim.name} ({victim.pid})" for victim in victims)
            raise ClusterError(f"these processes don't end, look at `ps -o pid,stat,wchan,args`: {listed}")
        for victim in victims:
            _kill(victim, state, deadline)


def _kill(victim: Process, state: Path, deadline: float) -> None:
    try:
        handle = os.pidfd_open(victim.pid)
    except ProcessLookupError:
        return
    try:
        # The handle means one process for good; look again, as the id may have been reused before it was opened.
        if victim in running(state):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
