# SPDX-License-Identifier: Apache-2.0
"""What an engine's process that was forked from its server has no more."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.engine.unlocked.forking import stop_listening


@contextmanager
def a_fork(first: Callable[[], None]) -> Iterator[None]:
    """A process that was forked, and has done this first."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        first()
        os.write(writing, b"1")
        signal.pause()
        os._exit(0)
    try:
        os.read(reading, 1)
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)


def is_taken_on(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(("first", "outlives"), [(lambda: None, True), (stop_listening, False)])
def test_a_port_ends_with_its_server_though_a_fork_of_it_lives(first: Callable[[], None], outlives: bool) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    with a_fork(first):
        assert is_taken_on(port)
        server.close()
        assert is_taken_on(port) is outlives


def test_a_port_that_is_listened_at_after_the_fork_does_too() -> None:
    """As vLLM's server does it."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    port = server.getsockname()[1]
    with a_fork(stop_listening):
        server.listen()
        assert is_taken_on(port)
        server.close()
        assert not is_taken_on(port)


def test_connections_and_local_sockets_are_left() -> None:
    ours, theirs = socket.socketpair()
    server = socket.create_server(("127.0.0.1", 0))
    with server, ours, theirs, socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:

        def tell() -> None:
            stop_listening()
            accepted.send(b"a")
            theirs.send(b"b")

        with a_fork(tell):
            assert (client.recv(1), ours.recv(1)) == (b"a", b"b")


def test_it_leaves_no_file_open_that_was_not_open_before() -> None:
    """A copy of a pipe's end would hide that a process has died from those that wait for it."""
    ours, theirs = socket.socketpair()

    def tell() -> None:
        before = open_files()
        stop_listening()
        theirs.send(b"same" if open_files() == before else b"more")

    with ours, theirs, socket.create_server(("127.0.0.1", 0)), a_fork(tell):
        assert ours.recv(4) == b"same"


def open_files() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}
