# SPDX-License-Identifier: Apache-2.0
"""Faults of the operator's replicas and of what makes one of them the leader."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.chaos.operator.proxy import Hold, Reset
from e2e.chaos.operator.replicas import LEASE
from e2e.chaos.operator.scene import Scene
from e2e.suite.operator_process import ACCOUNT_NAMESPACE

_CLOCK = Path(__file__).with_name("clock")
_IN = f"--namespace={ACCOUNT_NAMESPACE}"
_THIEF = "somebody-else"


def leader_killed(scene: Scene) -> None:
    """The leader is killed (`kill -9`) when a pod was just deleted, and started anew."""
    leader = scene.leader()
    scene.delete_engines()
    leader.kill()
    scene.until("the other one to lead", scene.replicas.other(leader).leads)
    leader.start()


def standby_killed(scene: Scene) -> None:
    """The other one is killed and started anew."""
    standby = scene.replicas.other(scene.leader())
    standby.kill()
    scene.delete_engines()
    standby.start()


def leader_told_to_end(scene: Scene) -> None:
    """The leader is ended as by a roll-out of the operator."""
    leader = scene.leader()
    scene.delete_engines()
    leader.stop()
    scene.until("the other one to lead", scene.replicas.other(leader).leads)
    leader.start()


def pods_deleted_without_operator(scene: Scene) -> None:
    """Both are killed, and pods deleted before they are started anew."""
    for each in scene.replicas.all:
        each.kill()
    scene.until_gone(scene.delete_engines(3))
    _start(scene)


def resource_deleted_without_operator(scene: Scene) -> None:
    """A resource is deleted while there is no operator; it is made again when one has seen that it is gone."""
    for each in scene.replicas.all:
        each.kill()
    name = scene.any_resource()
    resource = scene.remove_resource(name)
    scene.until("the resource's engines to be gone", lambda: not scene.look().engines.get(name))
    _start(scene)
    scene.leader()
    scene.until("nothing to be left of it", lambda: not scene.look().children.get(name))
    scene.kubectl.apply(resource)


def resource_replaced_without_operator(scene: Scene) -> None:
    """While there is no operator a resource is deleted, and another one of its name is made at once."""
    for each in scene.replicas.all:
        each.kill()
    scene.kubectl.apply(scene.remove_resource(scene.any_resource()))
    _start(scene)


def leader_frozen(scene: Scene) -> None:
    """The leader is stopped (`SIGSTOP`) until the other one leads and has written, and goes on: it writes nothing any more."""
    leader = scene.leader()
    leader.freeze()
    try:
        scene.until("the other one to lead", scene.replicas.other(leader).leads)
        scene.until_gone(scene.delete_engines())
        time.sleep(2.0)
    finally:
        leader.thaw()
    scene.until("it to answer", leader.is_ready)


def leader_frozen_in_a_look(scene: Scene) -> None:
    """As before, but it is stopped when it has asked for pods, and finds the answer, old by then, when it goes on."""
    leader = scene.leader()
    leader.proxy.trouble = Hold()
    try:
        scene.until_gone(scene.delete_engines())
        scene.until("it to ask for pods", lambda: leader.proxy.held)
    finally:
        leader.freeze()
        leader.proxy.trouble = None
    try:
        scene.until("the other one to lead", scene.replicas.other(leader).leads)
        scene.until_gone(scene.delete_engines(2))
        time.sleep(2.0)
    finally:
        leader.thaw()
    scene.until("it to answer", leader.is_ready)


def leader_cut_off(scene: Scene) -> None:
    """The leader does not reach the API server any more, and the other one does."""
    leader = scene.leader()
    leader.proxy.trouble = Reset()
    leader.proxy.cut_watches()
    try:
        scene.delete_engines()
        scene.until("the other one to lead", scene.replicas.other(leader).leads)
        time.sleep(2.0)
    finally:
        leader.proxy.trouble = None


def lease_deleted(scene: Scene) -> None:
    """The Lease is deleted, three times."""
    for _ in range(3):
        scene.kubectl.delete("lease", LEASE, _IN)
        time.sleep(1.0)
    scene.delete_engines()


def lease_stolen(scene: Scene) -> None:
    """Somebody else writes its name into the Lease, and never renews it."""
    leader = scene.leader()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    stolen = {"spec": {"holderIdentity": _THIEF, "acquireTime": now, "renewTime": now}}
    scene.until("the Lease to be stolen", lambda: _steals(scene, stolen))
    scene.delete_engines()
    scene.until("the leader to give up", lambda: leader.has_said("lease taken by another"))


def another_version(scene: Scene) -> None:
    """One replica is of a version that renders engines and front door otherwise; they lead in turn, twice."""
    images = {"connector_image": "tandem.dev/connector-init:next", "front_door_image": "tandem.dev/front-door:next"}
    newer = scene.replicas.other(scene.leader())
    older = scene.replicas.other(newer)
    newer.stop()
    newer.start(images)
    for follows, former, settings in ((newer, older, {}), (older, newer, images), (newer, older, {})):
        scene.until("the other one to be ready", follows.is_ready)
        former.stop()
        scene.until("the other one to lead", follows.leads)
        scene.delete_engines()
        former.start(settings)
        scene.settle()
    newer.stop()
    newer.start()


def clock_steps(scene: Scene) -> None:
    """The leader's time of day is set an hour ahead, and then two hours back: that of its process, as a machine's is everybody's."""
    leader = scene.leader()
    off = scene.folder / "clock"
    off.write_text("0")
    standby = scene.replicas.other(leader)
    standby.stop()
    standby.start(environment={"PYTHONPATH": str(_CLOCK), "TANDEM_CHAOS_CLOCK": str(off)})
    scene.until("it to be ready", standby.is_ready)
    leader.stop()
    scene.until("it to lead", standby.leads)
    leader.start()
    for seconds in (3_600, -7_200, 0):
        off.write_text(str(seconds))
        scene.delete_engines()
        scene.settle()
    standby.stop()
    standby.start()


FAULTS = (
    leader_killed,
    standby_killed,
    leader_told_to_end,
    pods_deleted_without_operator,
    resource_deleted_without_operator,
    resource_replaced_without_operator,
    leader_frozen,
    leader_frozen_in_a_look,
    leader_cut_off,
    lease_deleted,
    lease_stolen,
    another_version,
    clock_steps,
)


def _start(scene: Scene) -> None:
    for each in scene.replicas.all:
        each.start()


def _steals(scene: Scene, stolen: dict[str, Any]) -> bool:
    scene.patch("lease", LEASE, stolen, _IN)
    lease = scene.kubectl.run("get", "lease", LEASE, _IN, "-o", "json")
    return bool(json.loads(lease)["spec"]["holderIdentity"] == _THIEF)
