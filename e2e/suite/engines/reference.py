# SPDX-License-Identifier: Apache-2.0
"""What one plain engine answers: the truth that prefill and decode are compared with."""

import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.progress import wait_until
from e2e.conversation import Turn, held
from e2e.engine.environment import EngineEnvironment
from e2e.engine.model import MODEL_NAME
from e2e.engine.serve import plain_engine

START_WITHIN = 300.0
END_WITHIN = 30.0


def plain_answers(environment: EngineEnvironment, model: Path, log: Path) -> list[Turn]:
    """The scripted conversation as one engine without any connector answers it."""
    with _engine(environment, model, log) as url:
        return list(held(url, MODEL_NAME, session="reference"))


@contextmanager
def _engine(environment: EngineEnvironment, model: Path, log: Path) -> Iterator[str]:
    port = _free_port()
    # One core, as each engine in a pod has: with another number of threads sums are rounded differently.
    command = plain_engine(environment, model, port=port, cores="0")
    with (
        log.open("w") as output,
        subprocess.Popen(
            command.arguments, env={**os.environ, **command.environment}, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"the plain engine ended with {process.returncode}: see {log}")
            try:
                with urllib.request.urlopen(f"{url}/health", timeout=5):
                    return True
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                return False

        try:
            wait_until("a plain engine", answers, START_WITHIN, every=1.0)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
