# SPDX-License-Identifier: Apache-2.0
"""The node's place in the machine's control groups, of version 1, 2 or both side by side."""

import time
from pathlib import Path

from e2e.cluster.interface import ClusterError

GROUP = "tandem"
"""Directly below the root of each hierarchy; all pods are below it."""

_MOUNTS = Path("/proc/self/mounts")
_NEEDED = ("cpu", "cpuset", "memory", "pids")
_UNIFIED = Path("/sys/fs/cgroup")
"""Where version 2 is mounted when it has the controllers."""
_ORDINARY = {"cpu.shares": 1024, "cpu.weight": 100}
"""The kernel's own weights of a group, with which all pods together get as much of a busy machine's cores as one process outside."""
_TIMES = 4
"""So many times that: beside a handful of other processes engines then start in two minutes and not in eleven."""


def create() -> None:
    """Make the node's group in every hierarchy.

    Raises:
        ClusterError: Version 2, and this is a container whose root group may not have children with controllers.
    """
    for hierarchy in hierarchies(_MOUNTS.read_text()):
        (hierarchy / GROUP).mkdir(exist_ok=True)
        if hierarchy == _UNIFIED:
            _pass_controllers_on(hierarchy)
        weigh(hierarchy / GROUP)


def weigh(group: Path) -> None:
    """Give a group its share of the cores, where its hierarchy has their controller."""
    for name, ordinary in _ORDINARY.items():
        if (group / name).exists():
            (group / name).write_text(str(_TIMES * ordinary))


def remove() -> None:
    """Remove the group with all below it. The processes in it must have ended."""
    for hierarchy in hierarchies(_MOUNTS.read_text()):
        if (hierarchy / GROUP).exists():
            _remove_tree(hierarchy / GROUP)


def hierarchies(mounts: str) -> list[Path]:
    """Where the hierarchies are mounted, given the text of `/proc/self/mounts`.

    One of version 2; or all of version 1, and beside them often one of version 2 without controllers, in which runc
    makes groups all the same.
    """
    fields = [line.split() for line in mounts.splitlines()]
    return [Path(target.replace("\\040", " ")) for _, target, kind, *_ in fields if kind in {"cgroup", "cgroup2"}]


def _pass_controllers_on(hierarchy: Path) -> None:
    available = (hierarchy / "cgroup.controllers").read_text().split()
    if missing := [name for name in _NEEDED if name not in available]:
        raise ClusterError(f"the kernel gives no cgroup controller for {', '.join(missing)}, which the kubelet needs")
    for name in available:
        try:
            (hierarchy / "cgroup.subtree_control").write_text(f"+{name}")
        except OSError as error:
            if name in _NEEDED:
                raise ClusterError(
                    f"the cgroup controller {name} can't be passed on ({error.strerror}): inside a container, start it "
                    "with its own cgroup namespace and an init that moves its processes out of the root group, or use "
                    "CLUSTER=kind"
                ) from error


def _remove_tree(group: Path) -> None:
    for child in group.iterdir():
        if child.is_dir():
            _remove_tree(child)
    deadline = time.monotonic() + 5
    while True:
        try:
            return group.rmdir()
        except OSError:
            # The kernel counts a process as a member until it has quite ended.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
