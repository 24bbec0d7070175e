# SPDX-License-Identifier: Apache-2.0
"""The commands of the provider `kind`; no cluster is made."""

import subprocess
from pathlib import Path

import pytest

from e2e.cluster.interface import ClusterError
from e2e.cluster.kind import Action, KindCluster, command

KUBECONFIG = Path("/a cache/kind/kubeconfig")


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Action.LIST, ["kind", "get", "clusters"]),
        (
            Action.CREATE,
            [
                "kind",
                "create",
                "cluster",
                "--name=tandem",
                "--image=kindest/node:v1.35.4",
                "--kubeconfig=/a cache/kind/kubeconfig",
                "--wait=180s",
            ],
        ),
        (Action.DELETE, ["kind", "delete", "cluster", "--name=tandem", "--kubeconfig=/a cache/kind/kubeconfig"]),
        (Action.LOAD, ["kind", "load", "image-archive", "/some images/operator.tar", "--name=tandem"]),
    ],
)
def test_each_action_is_one_command(action: Action, words: list[str]) -> None:
    assert command(action, KUBECONFIG, Path("/some images/operator.tar")) == words


class Kind:
    """Stands in for the kind CLI: answers with the clusters that it has, and remembers what it was asked."""

    def __init__(self, clusters: str) -> None:
        self._clusters = clusters
        self.asked: list[str] = []

    def run(self, argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.asked.append(argv[1])
        return subprocess.CompletedProcess(argv, 0, stdout=self._clusters if argv[1] == "get" else "")


@pytest.mark.parametrize(
    ("clusters", "asked"),
    [("", ["get", "create"]), ("tandem-other\n", ["get", "create"]), ("other\ntandem\n", ["get"])],
)
def test_a_cluster_is_created_only_if_there_is_none_of_its_name(
    clusters: str, asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kind = Kind(clusters)
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", kind.run)

    KindCluster().up()

    assert kind.asked == asked


def test_a_missing_kind_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ClusterError, match=r"kind is not installed: .* CLUSTER=local"):
        KindCluster().up()
