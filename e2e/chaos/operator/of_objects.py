# SPDX-License-Identifier: Apache-2.0
"""Faults of nodes and of the objects that the operator makes: what others do to them."""

import json
import time

from e2e.chaos.operator.scene import Scene
from e2e.cluster.local import simulated
from e2e.kubectl import Manifest
from tandem_connector.contract.peers import Peer, PeerTable
from tandem_connector.contract.types import EngineState, Role, pod_of
from tandem_operator.api.names import (
    FRONT_DOOR_ROLE,
    PEERS_ANNOTATION,
    RESOURCE_LABEL,
    ROLE_LABEL,
    front_door_name,
    role_name,
)

_STATUS = "--subresource=status"


def node_silent(scene: Scene) -> None:
    """A node isn't ready any more, until no table says that an engine there is, and comes back."""
    node = _used_node(scene)
    kept = {"metadata": {"annotations": {simulated.KEPT_AS_IT_IS: ""}}}
    scene.patch("node", node, kept)
    scene.kubectl.run("patch", "node", node, _STATUS, "-p", _conditions("False", "Ready"))
    scene.until("nobody to be told that its engines are ready", lambda: not _told_as_ready(scene, node))
    time.sleep(2.0)
    scene.patch("node", node, {"metadata": {"annotations": {simulated.KEPT_AS_IT_IS: None}}})
    scene.until("it to be back", lambda: _is_ready(scene.look().nodes[node]))
    # What its kubelet would say.
    for pod in _pods_on(scene, node):
        scene.kubectl.run(
            "patch", "pod", pod["metadata"]["name"], _STATUS, "-p", _conditions("True", "ContainersReady", "Ready")
        )


def node_removed(scene: Scene) -> None:
    """A node is terminated: its object and its pods go; another one of its name joins later."""
    node = _used_node(scene)
    pods = _pods_on(scene, node)
    scene.removed.update(pod["metadata"]["uid"] for pod in pods)
    scene.kubectl.delete("node", node)
    names = [pod["metadata"]["name"] for pod in pods]
    scene.kubectl.run("delete", "pod", "--force", "--grace-period=0", "--wait=false", "--ignore-not-found", *names)
    time.sleep(3.0)
    scene.kubectl.apply(simulated.node(int(node.removeprefix(simulated.NODE_PREFIX))))


def engines_deleted(scene: Scene) -> None:
    """All engines of a resource are deleted at once."""
    name = scene.any_resource()
    scene.delete_engines(len(scene.look().engines[name]), name)


def sets_deleted_without_their_pods(scene: Scene) -> None:
    """The StatefulSets of a resource are deleted, and not their pods."""
    name = scene.any_resource()
    sets = [each["metadata"]["name"] for each in scene.look().children[name] if each["kind"] == "StatefulSet"]
    # Kubernetes' garbage collector takes the pods from them first, and has taken more than two minutes for that.
    scene.kubectl.run("delete", "statefulset", "--cascade=orphan", *sets, timeout=600)


def children_deleted(scene: Scene) -> None:
    """A resource's Services and its front door are deleted."""
    name = scene.any_resource()
    scene.kubectl.delete("deployment", front_door_name(name))
    for role in Role:
        scene.kubectl.delete("service", role_name(name, role))


def front_door_killed(scene: Scene) -> None:
    """The pods of a resource's front door are gone at once, and an engine is deleted."""
    name = scene.any_resource()
    selector = f"{RESOURCE_LABEL}={name},{ROLE_LABEL}={FRONT_DOOR_ROLE}"
    pods = scene.kubectl.list("pod", selector)
    names = [pod["metadata"]["name"] for pod in pods]
    assert names, "no front door"
    scene.kubectl.run("delete", "pod", "--force", "--grace-period=0", "--wait=false", *names)
    scene.delete_engines(1, name)
    gone = {pod["metadata"]["uid"] for pod in pods}
    scene.until("others", lambda: not gone & {pod["metadata"]["uid"] for pod in scene.kubectl.list("pod", selector)})


def tables_taken_away(scene: Scene) -> None:
    """The peer tables of a resource are removed from its pods."""
    pods = scene.look().engines[scene.any_resource()]
    scene.kubectl.run("annotate", "pod", *(pod["metadata"]["name"] for pod in pods), f"{PEERS_ANNOTATION}-")


def former_table_written(scene: Scene) -> None:
    """A table from before a peer's end is written over an engine's own: it names a pod that is gone."""
    name = scene.any_resource()
    before = scene.look()
    (gone,) = scene.delete_engines(1, name)
    scene.until_gone([gone])
    scene.settle()
    there = scene.look().pods
    told = next(
        pod
        for pod in before.engines[name]
        if pod["metadata"]["uid"] in there and gone["metadata"]["uid"] in _table(pod)
    )
    scene.kubectl.run("annotate", "--overwrite", "pod", told["metadata"]["name"], f"{PEERS_ANNOTATION}={_table(told)}")


FAULTS = (
    node_silent,
    node_removed,
    engines_deleted,
    sets_deleted_without_their_pods,
    children_deleted,
    front_door_killed,
    tables_taken_away,
    former_table_written,
)


def _table(pod: Manifest) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(PEERS_ANNOTATION, ""))


def _used_node(scene: Scene) -> str:
    names: set[str] = {pod["spec"]["nodeName"] for pod in scene.look().pods.values()}
    return scene.random.choice(sorted(names))


def _pods_on(scene: Scene, node: str) -> list[Manifest]:
    return [pod for pod in scene.look().pods.values() if pod["spec"].get("nodeName") == node]


def _told_as_ready(scene: Scene, node: str) -> list[Peer]:
    """What tables say of engines on this node that are ready."""
    pods = scene.look().pods
    there = {uid for uid, pod in pods.items() if pod["spec"].get("nodeName") == node}
    tables = [PeerTable.model_validate_json(text) for text in map(_table, pods.values()) if text]
    return [
        peer
        for table in tables
        for peer in table.peers
        if peer.state is EngineState.READY and pod_of(peer.engine) in there
    ]


def _is_ready(manifest: Manifest) -> bool:
    conditions = manifest.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _conditions(status: str, *kinds: str) -> str:
    return json.dumps(
        {"status": {"conditions": [{"type": kind, "status": status, "reason": "MadeSo"} for kind in kinds]}}
    )
