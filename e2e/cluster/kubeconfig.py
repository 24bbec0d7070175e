# SPDX-License-Identifier: Apache-2.0
"""The provider `kubeconfig`: a cluster that is there already and belongs to somebody else."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from e2e.cluster import nodes
from e2e.cluster.interface import ClusterError, NodeFacts, Part
from e2e.cluster.tools import kubectl_path

PRESENT = "TANDEM_IMAGES_PRESENT"


class KubeconfigCluster:
    """The cluster that the user's kubeconfig points at. It is never started or stopped.

    Args:
        kubeconfig: The user's file; its current context is used.
        images_are_present: The nodes can pull the images already, under the names that the chart is told.
    """

    name = "kubeconfig"

    def __init__(self, kubeconfig: Path, *, images_are_present: bool = False) -> None:
        self._kubeconfig = kubeconfig
        self._images_are_present = images_are_present

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self:
        """The first file of `KUBECONFIG`, else `~/.kube/config`; images are present if TANDEM_IMAGES_PRESENT=1."""
        first = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
        return cls(Path(first or "~/.kube/config").expanduser(), images_are_present=environment.get(PRESENT) == "1")

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    @property
    def kubectl(self) -> list[str]:
        return [str(kubectl_path()), f"--kubeconfig={self._kubeconfig}"]

    def up(self) -> None:
        if not self._kubeconfig.is_file():
            raise ClusterError(
                f"there is no kubeconfig at {self._kubeconfig}: set KUBECONFIG to the file of your cluster"
            )
        nodes.read(self.kubectl)

    def down(self) -> None:
        pass

    def load_image(self, archive: Path) -> None:
        if not self._images_are_present:
            raise ClusterError(
                f"{archive.name} can't be put on the nodes of a cluster that is not ours: push the images to a registry "
                f"that your nodes can pull from, set the chart's image values to it, and say so with {PRESENT}=1"
            )

    def facts(self) -> NodeFacts:
        return nodes.facts(nodes.read(self.kubectl), is_local=False, can_mount_host_paths=False)

    def status(self) -> list[Part]:
        return nodes.status(self.kubectl)
