# SPDX-License-Identifier: Apache-2.0
"""The processes of a container of the local node, as this machine sees them: to be killed and frozen as no API can."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from e2e.kubectl import Manifest

PROC = Path("/proc")


def signal_container(
    pod: Manifest, container: str, number: signal.Signals, named: str = "", *, processes: Path = PROC
) -> int:
    """Send a signal to all processes of a container, or to those whose title contains `named`.

    Args:
        pod: the container's, as the API server has it.
        container: its name in the pod.
        number: the signal.
        named: part of the title; "" is part of all.
        processes: where Linux tells of them.

    Returns:
        How many there were.

    Raises:
        LookupError: the pod has no such container that has been started.
    """
    identity = _identity(pod, container)
    pids = [
        int(folder.name)
        for folder in processes.iterdir()
        if folder.name.isdigit() and identity in _read(folder / "cgroup") and named in _read(folder / "cmdline")
    ]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(pids)


def _identity(pod: Manifest, container: str) -> str:
    """The container's id, which containerd names its control groups after."""
    statuses = {each["name"]: each for each in pod["status"].get("containerStatuses", ())}
    identity: str = statuses[container]["containerID"].partition("://")[2]
    if not identity:
        raise LookupError(f"{container} has no id")  # Every group's name contains the empty one.
    return identity


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace")
    return ""
