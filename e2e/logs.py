# SPDX-License-Identifier: Apache-2.0
"""What a resource's pods said, for whoever has to find out why something failed."""

from collections.abc import Iterator
from contextlib import contextmanager

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


def logs(kubectl: Kubectl, resource: str) -> str:
    """The last lines of all containers of the resource's pods, each with its pod's name."""
    try:
        return kubectl.run(
            *("logs", "-l", f"tandem.dev/resource={resource}", "--all-containers", "--prefix"),
            *("--ignore-errors", f"--tail={_LINES}", "--max-log-requests=50"),
        )
    except KubectlError as error:
        return str(error)
