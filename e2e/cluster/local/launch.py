# SPDX-License-Identifier: Apache-2.0
"""Starting programs and waiting until they work, with the log of the one that doesn't."""

import ssl
import urllib.error
import urllib.request
from pathlib import Path

from e2e.cluster.interface import ClusterError, GaveUpError
from e2e.cluster.local import processes
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.program import Program
from e2e.cluster.local.sandbox import Sandbox
from e2e.cluster.progress import wait_until

_START_TIMEOUT = 90.0
_TAIL_LINES = 15


def launch(programs: list[Program], layout: Layout, inside: Sandbox | None) -> None:
    """Start `programs` together and return when each works.

    Args:
        programs: To be started in this order, without waiting in between.
        layout: The state folder as seen from here.
        inside: Where they run; None for the host itself.

    Raises:
        ClusterError: One ended, or does not work in time. The text has the end of its log.
    """
    for program in programs:
        argv = inside.command(program.argv) if inside else program.argv
        processes.start(program.name, argv, layout.root, layout.log(program.name))
    for program in programs:
        _wait_until_it_works(program, layout)


def require_alive(names: list[str], layout: Layout) -> None:
    """Raise ClusterError, with the log, when a program of these is gone."""
    alive = {process.name for process in processes.running(layout.root)}
    for name in names:
        if name not in alive:
            raise ClusterError(f"{name} has ended.\n{end_of_log(name, layout)}")


def answers(url: str, authority: Path) -> bool:
    """Whether `url` answers 200, with a certificate of `authority` if it is https."""
    try:
        context = ssl.create_default_context(cafile=authority) if url.startswith("https:") else None
        # The cluster is never behind the user's proxy.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def end_of_log(name: str, layout: Layout) -> str:
    """The last lines of a program's log, under a line that says where the whole is."""
    path = layout.log(name)
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return f"The end of {path}:\n" + "\n".join(f"  {line[:300]}" for line in lines[-_TAIL_LINES:])


def _wait_until_it_works(program: Program, layout: Layout) -> None:
    def works() -> bool:
        require_alive([program.name], layout)
        return program.health is None or answers(program.health, layout.certificate("ca"))

    try:
        wait_until(f"{program.name} to answer", works, _START_TIMEOUT)
    except GaveUpError as late:
        raise ClusterError(f"{late}.\n{end_of_log(program.name, layout)}") from late
