# SPDX-License-Identifier: Apache-2.0
"""Lives of pods, as a watch tells of them that ends now and then."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from e2e.chaos.topology.pods import Life, Pods
from e2e.cluster.interface import Cluster
from e2e.kubectl import Kubectl
from tandem_connector.contract.types import Role
from tests.builders import a_pod, a_ready_pod
from tests.builders.pods import PodBuilder

D = Role.DECODE


def event(kind: str, pod: PodBuilder) -> dict[str, Any]:
    return {"type": kind, "object": pod.build()}


def told(*pods: PodBuilder) -> Life:
    life = Life("qwen-decode-0", "u", D)
    for number, pod in enumerate(pods):
        life.told(pod.build(), float(number))
    return life


def test_a_life_tells_whether_it_served_when_it_was_deleted_and_how_its_engine_ended() -> None:
    serves = a_ready_pod(D)
    ends = serves.terminating()
    ended = ends.with_container(state={"terminated": {"exitCode": 137}}).with_condition("Ready", "False")
    life = told(a_pod(D), serves, ends, ended)
    assert (life.was_ready, life.ready, life.deleted, life.exit_code) == (True, False, 2.0, 137)
    assert told(a_pod(D)).was_ready is False
    assert told(serves.running(restarts=2)).restarts == 2


def watching(tmp_path: Path, *watches: list[dict[str, Any]]) -> Kubectl:
    """A kubectl that tells these events, one list each time that it is started, and then nothing more."""
    for number, events in enumerate(watches):
        (tmp_path / f"{number}").write_text("\n".join(json.dumps(each) for each in events) + "\n")
    (tmp_path / "kubectl.py").write_text(
        "import pathlib, time\n"
        "here = pathlib.Path(__file__).parent\n"
        "told = sorted(path for path in here.iterdir() if path.name.isdecimal())\n"
        "if told:\n"
        "    print(told[0].read_text(), end='', flush=True)\n"
        "    told[0].unlink()\n"
        "else:\n"
        "    time.sleep(60)\n"
    )
    return Kubectl(cast("Cluster", SimpleNamespace(kubectl=[sys.executable, str(tmp_path / "kubectl.py")])))


def until_all_is_told(tmp_path: Path) -> None:
    while any(path.name.isdecimal() for path in tmp_path.iterdir()):
        time.sleep(0.05)


def test_a_pod_that_is_not_listed_again_by_the_next_watch_is_gone(tmp_path: Path) -> None:
    first, second = a_ready_pod(D), a_ready_pod(D, 1)
    kubectl = watching(
        tmp_path,
        [event("ADDED", first), event("ADDED", second)],
        [event("ADDED", second), event("MODIFIED", second.terminating()), event("DELETED", second.terminating())],
    )
    with Pods(kubectl, "qwen") as pods:
        until_all_is_told(tmp_path)
        while pods.present():
            time.sleep(0.05)
        lives = {life.name: life for life in pods.lives}
    assert set(lives) == {"qwen-decode-0", "qwen-decode-1"}
    assert all(life.gone is not None and life.deleted is not None and life.was_ready for life in lives.values())
