# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.cluster`."""

from pathlib import Path

import pytest

from e2e.cluster import __main__ as command_line
from e2e.cluster.interface import ClusterError, NodeFacts, Part
from e2e.cluster.local.state import Profile


class Recorder:
    """A cluster that notes what is done with it."""

    name = "recorder"
    kubeconfig = Path("/a state/kubeconfig")
    kubectl = ("kubectl", "--kubeconfig=/a state/kubeconfig")

    def __init__(self) -> None:
        self.chosen: dict[str, object] = {}
        self.done: list[str] = []
        self.parts = [Part("etcd", True, "/a state/logs/etcd.log")]

    def choose(self, **options: object) -> "Recorder":
        self.chosen = options
        return self

    def up(self) -> None:
        self.done.append("up")

    def down(self) -> None:
        raise ClusterError("it won't go: push harder")

    def load_image(self, archive: Path) -> None:
        self.done.append(f"load {archive}")

    def facts(self) -> NodeFacts:
        return NodeFacts(1, 0, 2, 2**30, "amd64", is_local=True, can_mount_host_paths=True)

    def status(self) -> list[Part]:
        return self.parts


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(command_line, "chosen_cluster", recorder.choose)
    return recorder


@pytest.mark.parametrize(
    "words",
    [["--state", "/a state", "up", "--control-plane-only"], ["up", "--control-plane-only", "--state", "/a state"]],
)
def test_options_reach_the_cluster_wherever_they_stand(words: list[str], cluster: Recorder) -> None:
    assert command_line.main(words) == 0
    assert cluster.done == ["up"]
    assert cluster.chosen == {"state": Path("/a state"), "profile": Profile.CONTROL_PLANE, "simulated_nodes": 0}


def test_a_node_is_made_unless_it_is_declined(cluster: Recorder) -> None:
    command_line.main(["up", "--simulated-nodes", "3"])

    assert cluster.chosen == {"state": None, "profile": Profile.NODE, "simulated_nodes": 3}


def test_archives_are_loaded_in_turn(cluster: Recorder) -> None:
    assert command_line.main(["load", "one.tar", "two.tar"]) == 0
    assert cluster.done == ["load one.tar", "load two.tar"]


def test_an_error_is_one_line_and_the_exit_status_1(cluster: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["down"]) == 1
    assert capsys.readouterr().err == "error: it won't go: push harder\n"


def test_the_status_is_well_only_if_every_part_is(cluster: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["status"]) == 0
    cluster.parts.append(Part("kubelet", False, "/a state/logs/kubelet.log"))

    assert command_line.main(["status"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].split() == ["BAD", "kubelet", "/a", "state/logs/kubelet.log"]


def test_kubectl_gets_its_own_options_untouched(cluster: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda _, argv: ran.append(argv))

    command_line.main(["kubectl", "-n", "kube-system", "get", "pods", "--state", "of-the-union"])

    own = ["-n", "kube-system", "get", "pods", "--state", "of-the-union"]
    assert ran == [["kubectl", "--kubeconfig=/a state/kubeconfig", *own]]


def test_facts_are_shown_one_a_line(cluster: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    command_line.main(["facts"])

    assert "can_mount_host_paths=True" in capsys.readouterr().out.splitlines()
