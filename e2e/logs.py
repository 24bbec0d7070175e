# SPDX-License-Identifier: Apache-2.0
"""What a resource's pods said, for whoever has to find out why something failed."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.kubectl import Kubectl, KubectlError

_LINES = 80
"""Of each container."""


@contextmanager
def logs_if_it_fails(kubectl: Kubectl, resource: str) -> Iterator[None]:
    """If what is done meanwhile fails, its error tells what the resource's engines and front door said last."""
    try:
        yield
    except Exception as error:
        error.add_note(logs(kubectl, resource))
        raise


@contextmanager
def followed_if_it_fails(kubectl: Kubectl, pods: Sequence[str]) -> Iterator[None]:
    """If what is done meanwhile fails, its error tells what these pods have said since, also those that are gone by then."""
    with TemporaryDirectory() as folder:
        files = {pod: Path(folder, pod) for pod in pods}
        try:
            with ExitStack() as following:
                for pod, path in files.items():
                    following.enter_context(_followed(kubectl, pod, path))
                yield
        except Exception as error:
            for pod, path in files.items():
                said = path.read_text(errors="replace").splitlines()
                lines = [line for line in said if '"GET /' not in line]
                error.add_note("\n".join([f"{pod}:", *lines[-_LINES:]]))
            raise


@contextmanager
def _followed(kubectl: Kubectl, pod: str, path: Path) -> Iterator[None]:
    command = [*kubectl.command, "logs", pod, "--all-containers", "--follow", "--tail=0"]
    with path.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield
        finally:
            process.terminate()


def logs(kubectl: Kubectl, resource: str) -> str:
    """The last lines of all containers of the resource's pods, each with its pod's name."""
    try:
        return kubectl.run(
            *("logs", "-l", f"tandem.dev/resource={resource}", "--all-containers", "--prefix"),
            *("--ignore-errors", f"--tail={_LINES}", "--max-log-requests=50"),
        )
    except KubectlError as error:
        return str(error)
