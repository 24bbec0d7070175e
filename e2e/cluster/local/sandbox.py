# SPDX-License-Identifier: Apache-2.0
"""The namespaces that the node lives in: processes, mounts and network of its own.

The kernel ends them as a whole. When their first process is killed, every other process in them dies (also the shims
and containers that daemonise themselves), and with the last process go the mounts, the bridge, the pods' links and all
rules of iptables. Removing a node is one kill, and nothing of the host's can be hit by it.

A pair of virtual links leads from the host to the node, with routes to the pods and the Services: both answer on their
addresses from the host. There is no way from a pod to beyond the host.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.interface import ClusterError
from e2e.cluster.local import processes
from e2e.cluster.local.control_plane import SERVICE_CIDR
from e2e.cluster.local.layout import Layout
from e2e.cluster.progress import wait_until

INSIDE = Path("/run/tandem")
"""Where the state folder is seen inside."""

HOST_LINK = "tandem0"
"""The host's end of the pair of links. There can be one, hence one node on a machine."""
POD_CIDR = "10.244.0.0/16"
NODE_POD_CIDR = "10.244.0.0/24"
HOST_ADDRESS = "10.244.255.1"
NODE_ADDRESS = "10.244.255.2"

_NODE_LINK = "uplink"
_LONGEST_ALIAS = 255
_LINK_CIDR_LENGTH = 30
_NAME = "sandbox"
_SCRIPT = Path(__file__).with_name("sandbox.sh")
_COVERED = (Path("/var/lib/cni"), Path("/var/lib/kubelet"))
"""libcni and the kubelet's device manager write there whatever one configures; the sandbox covers both, for which they
must exist."""


@dataclass(frozen=True)
class Sandbox:
    """A living sandbox, known by its first process."""

    init: int

    def command(self, argv: list[str]) -> list[str]:
        """`argv` as it must be started on the host to run inside."""
        return ["nsenter", "--target", str(self.init), "--mount", "--net", "--pid", "--", *argv]


def find(state: Path) -> Sandbox | None:
    """The living sandbox of the cluster with this state folder."""
    for process in processes.running(state):
        if process.name == _NAME and _is_first_of_its_namespace(process.pid):
            return Sandbox(process.pid)
    return None


def create(state: Path) -> Sandbox:
    """Make the namespaces and connect them with the host.

    Raises:
        ClusterError: Another node runs on this machine, or the kernel refused.
    """
    if _link_exists():
        raise ClusterError(
            f"the network link {HOST_LINK} exists: another local cluster has a node on this machine, "
            f"{_owner_of_link()}. Only one can have one: run its `down --state FOLDER`, "
            "or `up --control-plane-only` here"
        )
    layout = Layout(state)
    for folder in _COVERED:
        folder.mkdir(mode=0o755, exist_ok=True)
    unshare = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--propagation=private",
        f"--wd={state}",
    ]
    processes.start(_NAME, [*unshare, "sh", str(_SCRIPT)], state, layout.log(_NAME))

    def ready() -> Sandbox | None:
        if not processes.running(state):
            raise ClusterError(f"the node's namespaces could not be made:\n{layout.log(_NAME).read_text()}")
        return find(state) if layout.sandbox_ready.exists() else None

    sandbox = wait_until("the node's namespaces", ready, timeout=20, every=0.05)
    _connect(sandbox, state)
    return sandbox


def remove(state: Path) -> bool:
    """End all processes of the cluster, and the connection with its sandbox.

    Returns:
        Whether there is a trace of a sandbox, so that what it had outside its namespaces must be removed too.
    """
    has_link = _owner_of_link() == _alias(state)
    was_there = has_link or Layout(state).sandbox_ready.exists() or find(state) is not None
    if has_link:
        # The kernel removes the links of a dead namespace some time later; a new node would find them in its way.
        subprocess.run(["ip", "link", "delete", HOST_LINK], capture_output=True, check=False)
    processes.end(state)
    for folder in _COVERED:
        if was_there and folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
    return was_there


def _connect(sandbox: Sandbox, state: Path) -> None:
    _ip("link", "add", HOST_LINK, "type", "veth", "peer", "name", _NODE_LINK, "netns", str(sandbox.init))
    _ip("link", "set", HOST_LINK, "alias", _alias(state))
    _ip("address", "add", f"{HOST_ADDRESS}/{_LINK_CIDR_LENGTH}", "dev", HOST_LINK)
    _ip("link", "set", HOST_LINK, "up")
    for cidr in (POD_CIDR, SERVICE_CIDR):
        _ip("route", "add", cidr, "via", NODE_ADDRESS)
    inside = sandbox.command(["ip"])
    _ip("address", "add", f"{NODE_ADDRESS}/{_LINK_CIDR_LENGTH}", "dev", _NODE_LINK, program=inside)
    _ip("link", "set", _NODE_LINK, "up", program=inside)
    _ip("route", "add", "default", "via", HOST_ADDRESS, program=inside)


def _ip(*arguments: str, program: list[str] | None = None) -> None:
    done = subprocess.run([*(program or ["ip"]), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")


def _link_exists() -> bool:
    return Path("/sys/class/net", HOST_LINK).exists()


def _alias(state: Path) -> str:
    return str(state)[:_LONGEST_ALIAS]


def _owner_of_link() -> str | None:
    """The state folder that the link was made for; it is the link's alias."""
    try:
        return Path("/sys/class/net", HOST_LINK, "ifalias").read_text().strip()
    except OSError:
        return None


def _is_first_of_its_namespace(pid: int) -> bool:
    """Whether the process has one id here and the id 1 in a namespace below."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    ids = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
    return len(ids) > 1 and ids[-1] == "1"
