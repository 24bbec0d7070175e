# SPDX-License-Identifier: Apache-2.0
"""What a cluster is to the demo and the tests, wherever it comes from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class ClusterError(Exception):
    """The cluster can't do what was asked. The text names the remedy."""


class GaveUpError(ClusterError):
    """Something did not happen in time."""


@dataclass(frozen=True)
class NodeFacts:
    """What decides how a workload is laid out on the nodes of a cluster."""

    nodes: int
    """Real nodes, those that run containers; 0 for a control plane alone."""
    simulated_nodes: int
    """Nodes that only pretend to run pods, with the devices of a GPU instance."""
    cores: int
    """Processor cores of all real nodes together."""
    memory: int
    """Bytes of memory of all real nodes together."""
    architecture: str
    """As in the label `kubernetes.io/arch`: `amd64` or `arm64`."""
    is_local: bool
    """Pods and Services answer on their addresses from this machine, so that no port needs forwarding."""
    can_mount_host_paths: bool
    """A hostPath volume shows this machine's files, so that large environments need no image."""


@dataclass(frozen=True)
class Part:
    """One part of a cluster, as `status` shows it."""

    name: str
    is_well: bool
    detail: str
    """Where to look next."""


class Cluster(Protocol):
    """A Kubernetes cluster, from nothing to nothing.

    `up` and `down` may be called in any state, also after a crash, and return at once when there is nothing to do.
    """

    @property
    def name(self) -> str:
        """The provider's name: `local`, `kind` or `kubeconfig`."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file with the rights of an administrator. It exists once `up` has returned."""
        ...

    @property
    def kubectl(self) -> list[str]:
        """The words that start kubectl for this cluster, to be followed by its arguments."""
        ...

    def up(self) -> None:
        """Return when the API server answers and the nodes are ready.

        Raises:
            ClusterError: They don't get there.
            BuildError: A program that it needs could not be built.
        """
        ...

    def down(self) -> None:
        """Remove everything that `up` made."""
        ...

    def load_image(self, archive: Path) -> None:
        """Make the images of an OCI archive available to pods under the names that the archive gives them."""
        ...

    def facts(self) -> NodeFacts:
        """The nodes as they are now."""
        ...

    def status(self) -> list[Part]:
        """The parts of the cluster, also when it is down."""
        ...
