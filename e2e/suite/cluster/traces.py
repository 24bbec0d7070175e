# SPDX-License-Identifier: Apache-2.0
"""What a node could leave on the machine."""

import subprocess
from pathlib import Path

WATCHED = ("/etc/cni", "/opt", "/run", "/usr/libexec/kubernetes", "/var/lib", "/var/log")
"""Folders in which Kubernetes, containerd and CNI write by default; two levels of them are looked at."""

_KERNEL_SETTINGS = ("kernel/keys/root_maxkeys", "kernel/panic", "net/ipv4/ip_forward", "vm/overcommit_memory")


def traces() -> dict[str, set[str]]:
    """Everything of each kind on this machine now, as comparable lines."""
    return {
        "cgroups": {str(path) for path in Path("/sys/fs/cgroup").glob("**/*tandem*")},
        "files": {str(path) for folder in WATCHED for pattern in ("*", "*/*") for path in Path(folder).glob(pattern)},
        "kernel settings": {f"{name}={Path('/proc/sys', name).read_text()}" for name in _KERNEL_SETTINGS},
        "links": _lines("ip", "-brief", "link", "show"),
        "mounts": set(Path("/proc/self/mounts").read_text().splitlines()),
        "processes outside our namespace": _processes_of_other_namespaces(),
        "routes": _lines("ip", "route", "show", "table", "all"),
        "rules": {line.split(" [")[0] for line in _lines("iptables-save") if not line.startswith("#")},
    }


def _lines(*argv: str) -> set[str]:
    return set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines())


def _processes_of_other_namespaces() -> set[str]:
    own = Path("/proc/self/ns/pid").stat().st_ino
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # The third field is the state. The dead wait for their parent to look, and hold nothing meanwhile.
            is_dead = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if not is_dead and (process / "ns" / "pid").stat().st_ino != own:
                found.add(f"{process.name} {(process / 'comm').read_text().strip()}")
        except OSError:
            continue
    return found
