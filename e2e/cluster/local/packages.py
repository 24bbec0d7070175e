# SPDX-License-Identifier: Apache-2.0
"""What a node needs from the distribution, installed if absent."""

import os
import shutil
import subprocess
from pathlib import Path

from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import Progress

CNI_PLUGINS = Path("/usr/lib/cni")
BUSYBOX = Path("/usr/bin/busybox")
_LOCK_TIMEOUT = 300
"""Seconds to wait for somebody else's apt-get."""
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"

# Programs rather than packages are looked for: containerd may be Docker's own, which Debian's package would replace.
_PACKAGE_OF = {
    "containerd": "containerd",
    "conntrack": "conntrack",
    "ctr": "containerd",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "runc": "runc",
    "unshare": "util-linux",
    str(CNI_PLUGINS / "bridge"): "containernetworking-plugins",
    str(BUSYBOX): "busybox-static",
}


def require() -> None:
    """Return when all is installed.

    Raises:
        ClusterError: Not root, not Debian's kind of distribution, or apt-get failed.
    """
    if os.geteuid() != 0:
        raise ClusterError(
            "a node needs root, for namespaces, mounts and network links: run this with sudo, "
            "or `up --control-plane-only` for an API server without a node"
        )
    if not (packages := missing()):
        return
    install(*packages)
    if still := missing():
        raise ClusterError(f"{', '.join(still)} was installed but its programs are not where they are looked for")


def install(*packages: str) -> None:
    """Install Debian packages; needs root.

    Raises:
        ClusterError: Not Debian's kind of distribution, or apt-get failed.
    """
    if not shutil.which("apt-get"):
        raise ClusterError(f"install these, under the names that your distribution has for them: {', '.join(packages)}")
    with Progress(f"installing {', '.join(packages)}") as progress:
        progress.update()
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *packages)


def missing() -> list[str]:
    """The packages to install."""
    path = os.environ.get("PATH", os.defpath) + os.pathsep + _SBIN
    return sorted({package for program, package in _PACKAGE_OF.items() if not shutil.which(program, path=path)})


def _apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", f"--option=DPkg::Lock::Timeout={_LOCK_TIMEOUT}", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ClusterError(f"`apt-get {' '.join(arguments)}` failed:\n{(done.stderr or done.stdout)[-2000:]}")
