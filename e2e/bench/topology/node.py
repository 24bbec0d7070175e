# SPDX-License-Identifier: Apache-2.0
"""From a change of a pod until engines on a real node have read it: a kubelet, its downward-API files, and the connector's reader.

Of one resource, the prefill engines are on simulated nodes, where their pods are changed. Its three decode engines are pods of a real
node, in which the connector's reader of peer tables runs in place of vLLM, with the programs of this machine.
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from e2e.bench.figure import figure
from e2e.bench.topology import pods
from e2e.bench.topology.api import Api
from e2e.bench.topology.changes import PAUSE, Changer
from e2e.bench.topology.numbers import percentile
from e2e.bench.topology.reads import LATE, Read, Reading, readings, reads
from e2e.bench.topology.tables import Sight
from e2e.cluster.local import node, pause_image
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.simulated import NODE_PREFIX
from e2e.cluster.local.state import Profile
from e2e.definitions import wait_until_established
from e2e.images.declaration import REPOSITORY
from e2e.kubectl import Kubectl
from e2e.ready import wait_until_ready
from e2e.suite.operator_process import operator, write_kubeconfig
from tandem_connector.contract.environment import PEERS_PATH, POD_UID
from tandem_connector.contract.peers import PeerTable
from tandem_operator.api.crd import DEFINITIONS
from tandem_operator.api.names import API_VERSION, HOSTNAME_LABEL, INSTANCE_TYPE_LABEL, KIND

_NAME = "readers"
_READERS = 3
_CHANGED = 4
_UP_WITHIN = 120.0
_APART = 2.0
"""Seconds between two changes that have nothing to do with each other. A kubelet that has just looked at a pod looks at it again only
after its next list of all containers, which it makes every second (pkg/kubelet/pod_workers.go, `GetNewerThan`)."""
_READS = "/reads"
_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/bin")
"""What Python needs of this machine in a pod whose image has next to nothing."""
_WELL = {"exec": {"command": ["/busybox", "true"]}}


def run(rounds: int, settings: dict[str, str]) -> None:
    """Make so many rounds of changes and print figures.

    Args:
        rounds: each of two or three changes: so many that are apart, and so many in quick succession.
        settings: of the operator.

    Raises:
        ClusterError: this machine can't have a node: it takes root and Debian packages; or it has one.
    """
    with TemporaryDirectory(prefix="bench-topology-node-") as scratch:
        folder = Path(scratch)
        (folder / "reads").mkdir()
        cluster = LocalCluster(folder / "state", Profile.NODE, simulated_nodes=_CHANGED)
        try:
            cluster.up()
            asyncio.run(_measure(cluster, folder, rounds, settings))
        finally:
            cluster.down()


async def _measure(cluster: LocalCluster, folder: Path, rounds: int, settings: dict[str, str]) -> None:
    kubectl = Kubectl(cluster)
    kubectl.apply(*(each.manifest() for each in DEFINITIONS))
    wait_until_established(kubectl, *(each.name for each in DEFINITIONS))
    kubeconfig = write_kubeconfig(cluster, "tandem-operator", folder / "kubeconfig")
    with operator(kubeconfig, "bench-topology", "node", **settings):
        kubectl.apply(resource(folder / "reads"))
        wait_until_ready(kubectl, _NAME, _UP_WITHIN)
        async with Api(cluster.kubeconfig) as api, pods.watched(api) as seen:
            for name, pause, deletions in (("changed", _APART, False), ("changed_again", PAUSE, True)):
                await asyncio.sleep(_APART)
                seen.matching.told.clear()
                await Changer(api, seen, _is_simulated, pause=pause).make(rounds, at_once=1, deletions=deletions)
                await _until_read(seen, folder / "reads")
                _print(name, readings(seen.matching.told, reads(folder / "reads")))


def resource(output: Path) -> dict[str, Any]:
    """The resource, whose decode engines write what they read into this folder, each into a file named by its pod's UID."""
    folders = [*_SYSTEM_FOLDERS, *dict.fromkeys((sys.base_prefix, sys.prefix, str(REPOSITORY)))]
    mounted = {path: path for path in folders if not any(path.startswith(f"{other}/") for other in folders)}
    container = {
        "name": "engine",
        "command": [sys.executable, "-m", "e2e.bench.topology.reader", PEERS_PATH, f"{_READS}/$({POD_UID})"],
        "env": [{"name": "PYTHONPATH", "value": str(REPOSITORY)}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "volumeMounts": [
            *({"name": f"host-{number}", "mountPath": path, "readOnly": True} for number, path in enumerate(mounted)),
            {"name": "reads", "mountPath": _READS},
        ],
        # There is no vLLM that could be asked.
        "startupProbe": {"$patch": "replace", **_WELL, "periodSeconds": 1},
        "readinessProbe": _WELL,
        "livenessProbe": _WELL,
    }
    readers = {
        "nodeSelector": {HOSTNAME_LABEL: node.NAME},
        # It would need an image for a connector that this machine has.
        "initContainers": [{"name": "connector", "$patch": "delete"}],
        "containers": [container],
        "volumes": [
            *({"name": f"host-{number}", "hostPath": {"path": path}} for number, path in enumerate(mounted)),
            {"name": "reads", "hostPath": {"path": str(output), "type": "Directory"}},
        ],
    }
    changed = {
        "nodeSelector": {INSTANCE_TYPE_LABEL: "p5en.48xlarge"},
        "tolerations": [{"operator": "Exists"}],
    }
    requests = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": _NAME},
        "spec": {
            "model": {"name": "none"},
            "engine": {"image": pause_image.REFERENCE},
            "accelerator": {"instanceType": "none"},
            "frontDoor": {"enabled": False},
            "prefill": {"replicas": _CHANGED, "resources": requests, "podTemplate": {"spec": changed}},
            "decode": {"replicas": _READERS, "resources": requests, "podTemplate": {"spec": readers}},
        },
    }


def _is_simulated(pod: Sight) -> bool:
    return pod.node.startswith(NODE_PREFIX)


async def _until_read(seen: pods.Pods, folder: Path) -> None:
    """Return when the readers have read their last table, or are late."""
    for _ in range(round(2 * LATE / 0.1)):
        tables = _tables(seen)
        if all(_newest(read) >= tables[uid].generation for uid, read in reads(folder).items() if uid in tables):
            return
        await asyncio.sleep(0.1)


def _tables(seen: pods.Pods) -> dict[str, PeerTable]:
    found = (pod for name in seen.matching.resources() for pod in seen.matching.pods(name).values())
    return {pod.uid: pod.table for pod in found if pod.table}


def _newest(read: list[Read]) -> int:
    return max((each.generation for each in read), default=0)


def _print(name: str, found: list[Reading]) -> None:
    read = [(each, each.read) for each in found if each.read is not None]
    figure(f"{name}_seen", len(found), "changes")
    for what, seconds in (
        ("to_read", [at - each.changed for each, at in read]),
        ("tables_to_read", [at - each.told for each, at in read]),
    ):
        for share in (50, 99):
            figure(f"{name}_{what}_p{share}", percentile(seconds, share / 100) * 1000, "ms")
    late = [each for each in found if each.read is None or each.read - each.told > LATE]
    figure(f"{name}_read_after_{LATE:.0f}_s", len(late), "changes")
