# SPDX-License-Identifier: Apache-2.0
"""Which provider is used."""

from pathlib import Path

import pytest

from e2e.cluster.choice import Provider, chosen_cluster, chosen_provider, default_state
from e2e.cluster.interface import Cluster, ClusterError
from e2e.cluster.kind import KindCluster
from e2e.cluster.kubeconfig import KubeconfigCluster
from e2e.cluster.local.cluster import LocalCluster


@pytest.mark.parametrize("provider", list(Provider))
@pytest.mark.parametrize("docker_answers", [True, False])
def test_the_environment_decides(provider: Provider, docker_answers: bool) -> None:
    assert chosen_provider({"CLUSTER": provider.value}, docker_answers=docker_answers) is provider


@pytest.mark.parametrize("environment", [{}, {"CLUSTER": ""}])
def test_without_a_word_it_is_kind_where_docker_answers_and_local_elsewhere(environment: dict[str, str]) -> None:
    assert chosen_provider(environment, docker_answers=True) is Provider.KIND
    assert chosen_provider(environment, docker_answers=False) is Provider.LOCAL


def test_an_unknown_provider_is_refused_with_the_choices() -> None:
    with pytest.raises(ClusterError, match=r"CLUSTER=minikube .* local, kind, kubeconfig"):
        chosen_provider({"CLUSTER": "minikube"}, docker_answers=True)


@pytest.mark.parametrize(
    ("provider", "kind"),
    [
        (Provider.LOCAL, LocalCluster),
        (Provider.KIND, KindCluster),
        (Provider.KUBECONFIG, KubeconfigCluster),
    ],
)
def test_every_provider_is_a_cluster_of_its_name(provider: Provider, kind: type[Cluster]) -> None:
    cluster = chosen_cluster(force=provider)

    assert isinstance(cluster, kind)
    assert cluster.name == provider.value


def test_the_state_folder_is_in_the_repository_unless_it_is_named() -> None:
    assert default_state({}).parts[-2:] == (".state", "local")
    assert default_state({"TANDEM_STATE": "/tmp/some where"}) == Path("/tmp/some where")
