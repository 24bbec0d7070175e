# SPDX-License-Identifier: Apache-2.0
"""The chart as a release on a cluster."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile
from e2e.cluster.tools import run_helm
from e2e.definitions import remove, wait_until_established
from e2e.kubectl import Kubectl
from tandem_operator.api.crd import DEFINITIONS

CHART = Path(__file__).parents[2] / "charts" / "tandem"
NAMESPACE = "tandem-system"
CRDS = [each.name for each in DEFINITIONS]


def own_control_plane(folder: Path, *, simulated_nodes: int = 0) -> Iterator[Cluster]:
    """A control plane of a module's own: the definition comes and goes there, which others could not bear."""
    if sys.platform != "linux":
        pytest.skip("the local control plane runs on Linux only")
    if os.environ.get("CLUSTER", "local") not in {"", "local"}:
        pytest.skip("tests of the chart bring their own control plane, which CLUSTER does not name")
    cluster = LocalCluster(folder / "state", Profile.CONTROL_PLANE, simulated_nodes=simulated_nodes)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


class ReleaseError(Exception):
    """Helm refused; the text is its own."""


class Release:
    """The release `tandem` on a cluster, and the cluster as its administrator sees it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        """Where it is."""
        self.kubectl = Kubectl(cluster, NAMESPACE)

    def install(self, *settings: str, chart: Path = CHART) -> None:
        self.helm("install", "tandem", str(chart), "--create-namespace", *_set(settings))

    def upgrade(self, *settings: str, options: tuple[str, ...] = ()) -> None:
        self.helm("upgrade", "tandem", str(CHART), *options, *_set(settings))

    def uninstall(self) -> None:
        self.helm("uninstall", "tandem", "--ignore-not-found", "--wait")

    def remove_all(self) -> None:
        """Leave nothing of the chart, the definitions included."""
        self.uninstall()
        remove(self.kubectl, *CRDS)

    def has_pods(self) -> bool:
        """Whether both pods of the operator were made."""
        return len(self.kubectl.list("pods", "app.kubernetes.io/name=tandem")) == 2

    def helm(self, *arguments: str) -> None:
        done = run_helm(self.cluster.kubeconfig, NAMESPACE, *arguments)
        if done.returncode:
            raise ReleaseError(done.stderr)

    def allows(self, who: str, verb: str, what: str, namespace: str, subresource: str = "") -> bool:
        """Whether the API server would let the user do this."""
        question = ["auth", "can-i", verb, what, "--subresource", subresource, "--as", who, "--namespace", namespace]
        done = subprocess.run([*self.cluster.kubectl, *question], capture_output=True, text=True, check=False)
        assert done.stdout.strip() in {"yes", "no"}, done.stderr
        return done.stdout.strip() == "yes"

    def establish_definition(self) -> None:
        wait_until_established(self.kubectl, *CRDS)


def _set(settings: tuple[str, ...]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
