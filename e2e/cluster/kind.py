# SPDX-License-Identifier: Apache-2.0
"""The provider `kind`: Kubernetes in containers of a Docker engine, through the kind command line.

Only the commands are tested, not a cluster made by them. They are those of kind's documentation,
https://kind.sigs.k8s.io/docs/user/quick-start/.
"""

import subprocess
from enum import Enum
from pathlib import Path

from e2e.cache import cache_root
from e2e.cluster import nodes
from e2e.cluster.binary import KUBERNETES_VERSION
from e2e.cluster.interface import ClusterError, NodeFacts, Part
from e2e.cluster.tools import kubectl_path

CLUSTER_NAME = "tandem"
_NODE_IMAGE = f"kindest/node:{KUBERNETES_VERSION}"
_READY_WITHIN = "180s"


class Action(Enum):
    """What kind is asked to do."""

    LIST = "list"
    CREATE = "create"
    DELETE = "delete"
    LOAD = "load"


def command(action: Action, kubeconfig: Path, archive: Path | None = None) -> list[str]:
    """The command line of kind for `action`; `archive` is what LOAD loads."""
    match action:
        case Action.LIST:
            return ["kind", "get", "clusters"]
        case Action.CREATE:
            options = [f"--image={_NODE_IMAGE}", f"--kubeconfig={kubeconfig}", f"--wait={_READY_WITHIN}"]
            return ["kind", "create", "cluster", f"--name={CLUSTER_NAME}", *options]
        case Action.DELETE:
            return ["kind", "delete", "cluster", f"--name={CLUSTER_NAME}", f"--kubeconfig={kubeconfig}"]
        case Action.LOAD:
            return ["kind", "load", "image-archive", str(archive), f"--name={CLUSTER_NAME}"]


class KindCluster:
    """One kind cluster of a fixed name, with one node."""

    name = "kind"

    @property
    def kubeconfig(self) -> Path:
        return cache_root() / "kind" / "kubeconfig"

    @property
    def kubectl(self) -> list[str]:
        return [str(kubectl_path()), f"--kubeconfig={self.kubeconfig}"]

    def up(self) -> None:
        if CLUSTER_NAME in self._run(Action.LIST).splitlines():
            return
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        self._run(Action.CREATE)

    def down(self) -> None:
        self._run(Action.DELETE)
        self.kubeconfig.unlink(missing_ok=True)

    def load_image(self, archive: Path) -> None:
        self._run(Action.LOAD, archive)

    def facts(self) -> NodeFacts:
        return nodes.facts(nodes.read(self.kubectl), is_local=False, can_mount_host_paths=False)

    def status(self) -> list[Part]:
        return nodes.status(self.kubectl)

    def _run(self, action: Action, archive: Path | None = None) -> str:
        argv = command(action, self.kubeconfig, archive)
        try:
            # Standard error is kind's progress display, for the user to see.
            return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
        except FileNotFoundError:
            raise ClusterError(
                "kind is not installed: see https://kind.sigs.k8s.io, or set CLUSTER=local to do without Docker"
            ) from None
        except subprocess.CalledProcessError as failed:
            raise ClusterError(f"`{' '.join(argv)}` failed; its messages are above") from failed
