# SPDX-License-Identifier: Apache-2.0
"""A way to a Service from outside of its cluster: `kubectl port-forward`.

Not the API server's service proxy: that takes `Authorization` for itself and drops it
(https://github.com/kubernetes/kubernetes/issues/38775), so that engines with a key refuse all, and an error of its own looks like
one of the front door. What is forwarded is a TCP connection, so an answer arrives in the pieces in which it was sent.

Its price: it leads to one pod of the Service, and to a connection that the pod resets kubectl may respond by ending
(https://github.com/kubernetes/kubernetes/issues/111825).
"""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.reading import Whereabouts

_BEGINS_WITHIN = 30.0
_ENDS_WITHIN = 5.0


class Forward:
    """One that was begun."""

    def __init__(self, url: str) -> None:
        self.url = url
        """Where it begins, on this machine."""
        self.complaints: list[str] = []
        """What kubectl said that is no mere report of a connection; all of it once the way is closed."""


@asynccontextmanager
async def forwarded(where: Whereabouts, service: str, port: int) -> AsyncIterator[Forward]:
    """While it lasts, a port of this machine's loopback leads to one of the Service.

    Raises:
        Failed: kubectl isn't there, or can't.
    """
    process = await _started(_command(where, service, port))
    try:
        forward = await _begun(process, service)
        listener = asyncio.create_task(_listen(process, forward))
        try:
            yield forward
        finally:
            await _end(process)
            # What it said last explains what failed last.
            await asyncio.wait([listener], timeout=_ENDS_WITHIN)
            listener.cancel()
    finally:
        await _end(process)


def _command(where: Whereabouts, service: str, port: int) -> list[str]:
    command = ["kubectl", "port-forward", f"service/{service}", f":{port}", "--address", "127.0.0.1"]
    command += ["--namespace", where.chosen_namespace()]
    command += ["--context", where.context] if where.context else []
    return command + (["--kubeconfig", str(where.kubeconfig)] if where.kubeconfig else [])


async def _started(command: Sequence[str]) -> Process:
    try:
        return await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    except OSError as error:
        words = f"kubectl can't be run ({error.strerror}): have it on PATH, or name the front door by --url"
        raise Failed(Exit.USAGE, words) from error


async def _begun(process: Process, service: str) -> Forward:
    assert process.stdout is not None  # noqa: S101 -- for the type checker
    before: list[str] = []
    try:
        async with asyncio.timeout(_BEGINS_WITHIN):
            # Programs that log in for kubectl may have something to say before it.
            async for line in process.stdout:
                if found := re.search(rb"127\.0\.0\.1:(\d+) ->", line):
                    return Forward(f"http://127.0.0.1:{int(found[1])}")
                before.append(line.decode(errors="replace").strip())
    except TimeoutError:
        before.append(f"nothing is forwarded after {_BEGINS_WITHIN:g} s")
    words = " ".join(before) or "it ended without a word"
    raise Failed(Exit.NO_CLUSTER, f"kubectl port-forward service/{service}: {words}")


async def _listen(process: Process, forward: Forward) -> None:
    """Until it ends: kubectl writes a line for each connection, and would wait for a full pipe."""
    assert process.stdout is not None  # noqa: S101 -- for the type checker
    async for line in process.stdout:
        words = line.decode(errors="replace").strip()
        if words and not words.startswith(("Handling connection", "Forwarding from")):
            forward.complaints.append(words)


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_ENDS_WITHIN):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
