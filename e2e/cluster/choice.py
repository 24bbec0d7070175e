# SPDX-License-Identifier: Apache-2.0
"""Which provider is used: the one that `CLUSTER` names, else what this machine can do best."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from e2e.cluster.interface import Cluster, ClusterError
from e2e.cluster.kind import KindCluster
from e2e.cluster.kubeconfig import KubeconfigCluster
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile

_REPOSITORY = Path(__file__).resolve().parents[2]


class Provider(Enum):
    """Where the cluster comes from."""

    LOCAL = "local"
    KIND = "kind"
    KUBECONFIG = "kubeconfig"


def chosen_provider(environment: Mapping[str, str], *, docker_answers: bool) -> Provider:
    """The provider that `CLUSTER` names; without it `kind` where a Docker engine answers, and `local` elsewhere.

    Raises:
        ClusterError: `CLUSTER` names none.
    """
    if not (wanted := environment.get("CLUSTER")):
        return Provider.KIND if docker_answers else Provider.LOCAL
    try:
        return Provider(wanted)
    except ValueError:
        choices = ", ".join(provider.value for provider in Provider)
        raise ClusterError(f"CLUSTER={wanted} is no provider of clusters: choose one of {choices}") from None


def chosen_cluster(
    *,
    state: Path | None = None,
    profile: Profile = Profile.NODE,
    simulated_nodes: int = 0,
    force: Provider | None = None,
) -> Cluster:
    """The cluster of this environment; nothing is started yet.

    Args:
        state: The folder of the local cluster; `TANDEM_STATE`, else `.state/local` in the repository.
        profile: What the local cluster consists of.
        simulated_nodes: Nodes with the devices of a GPU instance to add to the local cluster.
        force: Don't ask the environment.
    """
    provider = force or chosen_provider(os.environ, docker_answers=not os.environ.get("CLUSTER") and _docker_answers())
    match provider:
        case Provider.LOCAL:
            return LocalCluster(state or default_state(os.environ), profile, simulated_nodes)
        case Provider.KIND:
            return KindCluster()
        case Provider.KUBECONFIG:
            return KubeconfigCluster.of_environment(os.environ)


def default_state(environment: Mapping[str, str]) -> Path:
    """The state folder of the local cluster where none is given."""
    chosen = environment.get("TANDEM_STATE")
    return Path(chosen).expanduser().absolute() if chosen else _REPOSITORY / ".state" / "local"


def _docker_answers() -> bool:
    if not shutil.which("docker"):
        return False
    try:
        return not subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False).returncode
    except subprocess.TimeoutExpired:
        return False
