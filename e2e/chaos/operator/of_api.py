# SPDX-License-Identifier: Apache-2.0
"""Faults of the API server, of its etcd, and of the way to it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.chaos.operator import etcd
from e2e.chaos.operator.proxy import Mute, Refuse, Reset, Slow, Trouble
from e2e.chaos.operator.replicas import Replica
from e2e.chaos.operator.scene import Scene
from e2e.cluster.local import processes
from tandem_operator.api.crd import DEFINITIONS

_API_SERVER, _ETCD = "kube-apiserver", "etcd"
_TROUBLE_FOR = 6.0
"""Seconds: longer than a leader waits for its Lease to be renewed."""


def api_server_killed(scene: Scene) -> None:
    """The API server is killed and started again."""
    scene.delete_engines()
    scene.cluster.end_program(_API_SERVER)
    scene.cluster.start_program(_API_SERVER)


def api_server_away(scene: Scene) -> None:
    """The API server is killed, and started again when the leader has given up its Lease and more."""
    scene.cluster.end_program(_API_SERVER)
    time.sleep(20.0)
    scene.cluster.start_program(_API_SERVER)
    scene.delete_engines()


def api_server_frozen(scene: Scene) -> None:
    """The API server is stopped (`SIGSTOP`) and goes on."""
    scene.delete_engines()
    with _frozen(scene, _API_SERVER):
        time.sleep(_TROUBLE_FOR)


def etcd_killed(scene: Scene) -> None:
    """Etcd is killed (`kill -9`) and started again with what it had stored."""
    scene.delete_engines()
    scene.cluster.end_program(_ETCD)
    time.sleep(2.0)
    scene.cluster.start_program(_ETCD)


def etcd_frozen(scene: Scene) -> None:
    """Etcd is stopped and goes on: the API server answers reads of its own cache, and nothing else."""
    scene.delete_engines()
    with _frozen(scene, _ETCD):
        time.sleep(_TROUBLE_FOR)


def etcd_compacted(scene: Scene) -> None:
    """Pods are deleted, and etcd forgets all former versions at once, under the open watches."""
    scene.delete_engines(3)
    etcd.compact(scene.state)


def etcd_compacted_while_watches_are_away(scene: Scene) -> None:
    """Pods are deleted while no watch gets through, and what happened isn't known any more when they do: they start over."""
    relists = {each: _relists(each) for each in scene.replicas.all}
    scene.trouble(Refuse((503,), only_watches=True))
    try:
        for each in scene.replicas.all:
            each.proxy.cut_watches()
        scene.until_gone(scene.delete_engines(3))
        etcd.compact(scene.state)
        # It remembers what etcd has forgotten, until it is started anew.
        scene.cluster.end_program(_API_SERVER)
        scene.cluster.start_program(_API_SERVER)
    finally:
        scene.trouble(None)
    scene.until("the watches to start over", lambda: all(_relists(each) > relists[each] for each in relists))


def resource_deleted_while_watches_are_away(scene: Scene) -> None:
    """As before, but what is deleted is a resource, of which no watch tells any more."""
    scene.trouble(Refuse((503,), only_watches=True))
    try:
        for each in scene.replicas.all:
            each.proxy.cut_watches()
        name = scene.any_resource()
        resource = scene.remove_resource(name)
        scene.until("its engines to be gone", lambda: not scene.look().engines.get(name))
        etcd.compact(scene.state)
        scene.cluster.end_program(_API_SERVER)
        scene.cluster.start_program(_API_SERVER)
    finally:
        scene.trouble(None)
    others = len(scene.look().resources)
    scene.until("the leader to know that it is gone", lambda: scene.leader().metric("tandem_resources") == others)
    scene.kubectl.apply(resource)


def throttled(scene: Scene) -> None:
    """Every request is answered with 429, and to come again in two seconds."""
    with _trouble(scene, Refuse((429,), retry_after=2)):
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def half_throttled(scene: Scene) -> None:
    """Half of the requests are answered with 429, without a word of when to come again."""
    with _trouble(scene, Refuse((429,), share=0.5)):
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def answered_50x(scene: Scene) -> None:
    """Every request is answered with 500, 502, 503 or 504."""
    with _trouble(scene, Refuse((500, 502, 503, 504))):
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def half_answered_50x(scene: Scene) -> None:
    """Half of the requests are."""
    with _trouble(scene, Refuse((500, 502, 503, 504), share=0.5)):
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def slow(scene: Scene) -> None:
    """Every request takes up to a second longer."""
    with _trouble(scene, Slow(1.0)):
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def too_slow(scene: Scene) -> None:
    """Every request takes longer than the leader may take to renew its Lease."""
    with _trouble(scene, Slow(5.0)):
        scene.delete_engines()
        time.sleep(2 * _TROUBLE_FOR)


def connections_reset(scene: Scene) -> None:
    """Of every three requests, the connection of one is reset before the API server has it."""
    with _trouble(scene, Reset(share=0.33)):
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def answers_lost(scene: Scene) -> None:
    """Of every three requests, the connection of one is reset when the API server has done what was asked."""
    with _trouble(scene, Reset(share=0.33, passed_on=True)):
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def nothing_reached(scene: Scene) -> None:
    """Neither replica reaches the API server."""
    with _trouble(scene, Reset()):
        for each in scene.replicas.all:
            each.proxy.cut_watches()
        scene.delete_engines(2)
        time.sleep(_TROUBLE_FOR)


def watches_cut(scene: Scene) -> None:
    """All watches' connections are reset, five times, while pods come and go."""
    for _ in range(5):
        for each in scene.replicas.all:
            each.proxy.cut_watches()
        scene.delete_engines()
        time.sleep(0.5)


def watches_mute(scene: Scene) -> None:
    """All watches stay open and tell nothing, until replicas are started anew because of it."""
    anew = sum(each.anew for each in scene.replicas.all)

    def are_started_anew() -> bool:
        scene.replicas.tend()
        return sum(each.anew for each in scene.replicas.all) > anew

    with _trouble(scene, Mute()):
        scene.delete_engines()
        scene.until("a replica to be started anew", are_started_anew, 90.0)


def rights_taken_away(scene: Scene) -> None:
    """The operator's rights are taken away, and given back."""
    scene.kubectl.run("delete", "clusterrolebinding", scene.rights[-1]["metadata"]["name"])
    scene.delete_engines(2)
    time.sleep(_TROUBLE_FOR)
    scene.kubectl.apply(scene.rights[-1])


def definitions_applied_again(scene: Scene) -> None:
    """The CRDs are changed, so that the API server ends the watches of their objects, and applied again."""
    for each in DEFINITIONS:
        scene.patch("crd", each.name, {"spec": {"names": {"categories": ["all"]}}})
    scene.delete_engines()
    scene.kubectl.apply(*(each.manifest() for each in DEFINITIONS))


FAULTS = (
    api_server_killed,
    api_server_away,
    api_server_frozen,
    etcd_killed,
    etcd_frozen,
    etcd_compacted,
    etcd_compacted_while_watches_are_away,
    resource_deleted_while_watches_are_away,
    throttled,
    half_throttled,
    answered_50x,
    half_answered_50x,
    slow,
    too_slow,
    connections_reset,
    answers_lost,
    nothing_reached,
    watches_cut,
    watches_mute,
    rights_taken_away,
    definitions_applied_again,
)


@contextmanager
def _trouble(scene: Scene, trouble: Trouble) -> Iterator[None]:
    scene.leader()
    scene.trouble(trouble)
    try:
        yield
    finally:
        scene.trouble(None)


@contextmanager
def _frozen(scene: Scene, program: str) -> Iterator[None]:
    pid = next(each.pid for each in processes.running(scene.state) if each.name == program)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _relists(replica: Replica) -> float:
    return replica.metric("tandem_watch_relists_total", resource="pods")
