# SPDX-License-Identifier: Apache-2.0
"""vllm-router as a process of this machine, as the front door's image has it."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from e2e.cache import BuildError, built_once, key_of
from e2e.cluster.progress import wait_until
from e2e.exchange.numbers import value_of
from e2e.front_door.stand_ins import HOSTS, PORT, WITHIN
from e2e.uv import uv_program
from tandem_operator.plan.front_door import FAULTS

_PROJECT = Path(__file__).parents[1] / "images" / "front_door"
_HOST, _PORT, _METRICS_PORT = "127.0.0.10", 18_301, 18_302

URL = f"http://{_HOST}:{_PORT}"
AS_DEPLOYED = tuple(word for option, value in FAULTS for word in (option, str(value)))
"""What the operator says of faults."""


@contextmanager
def running_router(log: Path, arguments: Sequence[str], *, host: str = _HOST) -> Iterator[str]:
    """vllm-router over all stand-ins with `consistent_hash`, at this host, by default that of `URL`; its output goes to `log`.

    Returns:
        Its URL.

    Raises:
        BuildError: its environment could not be built.
    """
    workers = [f"http://{host}:{PORT}" for host in HOSTS]
    command = [
        *(_python(), "-m", "vllm_router.launch_router", "--worker-urls", *workers, "--policy", "consistent_hash"),
        *("--host", host, "--port", str(_PORT), "--prometheus-host", host, "--prometheus-port", str(_METRICS_PORT)),
        *arguments,
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            url = f"http://{host}:{_PORT}"
            wait_until("vllm-router", lambda: in_use(url) == len(HOSTS), WITHIN)
            yield url
        finally:
            process.kill()


def in_use(url: str = URL) -> int:
    """How many engines it takes for well."""
    with suppress(httpx.TransportError):
        return int(httpx.get(f"{url}/readiness", timeout=10.0).json().get("healthy_workers", 0))
    return 0


def retries() -> int:
    """How often it tried a request again."""
    text = httpx.get(f"http://{_HOST}:{_METRICS_PORT}/metrics", timeout=10.0).text
    return int(value_of(text, "vllm_router_retries_total"))


def _python() -> str:
    root = built_once(f"router-{key_of(_PROJECT / 'uv.lock')}", _install)
    return str(root / "bin" / "python3")


def _install(root: Path) -> None:
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(root)}
    environment.pop("VIRTUAL_ENV", None)
    uv = uv_program()
    for command in (
        [uv, "venv", "--quiet", "--relocatable", "--python", "3.11", str(root)],
        [uv, "sync", "--quiet", "--frozen", "--project", str(_PROJECT)],
    ):
        if subprocess.run(command, env=environment, check=False).returncode:
            raise BuildError(f"vllm-router could not be installed: {' '.join(command)} failed")
