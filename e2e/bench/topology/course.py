# SPDX-License-Identifier: Apache-2.0
"""The whole course on one cluster: LeaderWorkerSet's controllers, then the operator, then changes in what it brought up."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.bench.figure import figure
from e2e.bench.topology import lws, pods
from e2e.bench.topology.api import Api, Json
from e2e.bench.topology.changes import Changer
from e2e.bench.topology.cost import Cost, at_rest
from e2e.bench.topology.fleet import NAMESPACE, Member, fleet, nodes_for
from e2e.bench.topology.numbers import percentile
from e2e.bench.topology.process import Usage
from e2e.bench.topology.rising import Course, rise
from e2e.bench.topology.tables import Told
from e2e.cluster.local import processes
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile
from e2e.definitions import wait_until_established
from e2e.installation import is_ready
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess, operator, write_kubeconfig
from tandem_operator.api.crd import DEFINITIONS
from tandem_operator.api.names import API_VERSION, ENGINE_LABEL, PLURAL

_AT_ONCE = 8
_FLEET_PATH = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/{PLURAL}"
USUAL_LEASE = {"lease_duration": "15", "lease_renew_deadline": "10", "lease_retry": "2"}
"""In place of the shorter times of the suites."""


def run(resources: int, engines: int, rounds: int, nodes: int, *, compared: bool) -> None:
    """Run it and print figures.

    Args:
        resources: how many.
        engines: of all together.
        rounds: of changes, one after the other; half as many more several at once.
        nodes: how many get lost.
        compared: with DisaggregatedSets of the same pods, before.
    """
    members = fleet(resources, engines)
    with TemporaryDirectory(prefix="bench-topology-") as scratch:
        folder = Path(scratch)
        with _cluster(folder / "state", nodes_for(members)) as cluster:
            asyncio.run(_measure(cluster, folder, members, rounds, nodes, compared=compared))


async def _measure(
    cluster: LocalCluster, folder: Path, members: list[Member], rounds: int, nodes: int, *, compared: bool
) -> None:
    kubectl = Kubectl(cluster)
    kubectl.run("create", "namespace", NAMESPACE)
    server = {"apiserver": _pid_of("kube-apiserver", folder / "state")}
    async with Api(cluster.kubeconfig) as api:
        theirs = None
        if compared:
            with lws.controllers(cluster, folder, members[0]) as process:
                theirs = await rise(api, _their_course(members, {"controllers": process.pid, **server}))
                await _clear(api)
        kubectl.apply(*(each.manifest() for each in DEFINITIONS))
        wait_until_established(kubectl, *(each.name for each in DEFINITIONS))
        kubeconfig = write_kubeconfig(cluster, "tandem-operator", folder / "kubeconfig")
        with operator(kubeconfig, "bench-topology", "only", **USUAL_LEASE) as replica:
            ours = await rise(api, _our_course(members, {"operator": replica.pid, **server}))
            if theirs is not None:
                figure("tandem_of_lws", ours / theirs, "ratio")
            # Not before: the API server ends the watch of who doesn't keep up with all of this twice.
            async with pods.watched(api) as seen:
                await _change(api, seen, replica, server["apiserver"], rounds=rounds, nodes=nodes)


async def _change(
    api: Api, seen: pods.Pods, replica: OperatorProcess, apiserver: int, *, rounds: int, nodes: int
) -> None:
    changer, told = Changer(api, seen), seen.matching.told
    await at_rest(replica)
    for name, count, at_once in (("change", rounds, 1), ("busy_change", rounds // 2, _AT_ONCE)):
        told.clear()
        before, theirs = Cost.of(replica), Usage.of(apiserver)
        await changer.make(count, at_once=at_once)
        Cost.of(replica).since(before).print(name, len(told))
        used = Usage.of(apiserver).cpu_seconds - theirs.cpu_seconds
        figure(f"{name}_apiserver_cpu", used / len(told) * 1000, "ms a change")
        _print_told(name, told)
    told.clear()
    await changer.lose_nodes(nodes)
    _print_told("node", [each for each in told if each.change.kind == "node_lost"])
    figure("operator_memory_at_most", Cost.of(replica).usage.most_resident / 2**20, "MiB")


def _print_told(name: str, told: list[Told]) -> None:
    """How long after the sight of a change its last table was seen."""
    kinds = sorted({each.change.kind for each in told})
    for kind, some in [
        ("", told),
        *((f"{kind}_", [each for each in told if each.change.kind is kind]) for kind in kinds),
    ]:
        seconds = [each.seconds for each in some]
        figure(f"{name}_{kind}seen", len(seconds), "changes")
        if seconds:
            for share in (50, 99):
                figure(f"{name}_{kind}to_tables_p{share}", percentile(seconds, share / 100) * 1000, "ms")


def _our_course(members: list[Member], running: dict[str, int]) -> Course:
    return Course(
        name="tandem",
        manifests=[each.manifest for each in members],
        path=_FLEET_PATH,
        sets=f"/apis/{API_VERSION}/{PLURAL}",
        is_up=is_ready,
        expected=len(members),
        pods_selector=ENGINE_LABEL,
        engines=sum(each.engines for each in members),
        processes=running,
    )


def _their_course(members: list[Member], running: dict[str, int]) -> Course:
    def is_up(found: Json) -> bool:
        conditions = found.get("status", {}).get("conditions") or ()
        available = any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
        return available and found["status"].get("readyReplicas") == found["spec"]["replicas"]

    return Course(
        name="lws",
        manifests=[lws.disaggregated_set(each) for each in members],
        path=f"{lws.PATH}/namespaces/{NAMESPACE}/disaggregatedsets",
        sets=lws.SETS_PATH,
        is_up=is_up,
        expected=2 * len(members),
        pods_selector=lws.POD_LABEL,
        engines=sum(each.engines for each in members),
        processes=running,
    )


async def _clear(api: Api) -> None:
    """Remove what LeaderWorkerSet's controllers brought up."""
    print("removing the DisaggregatedSets", file=sys.stderr, flush=True)
    background = {"propagationPolicy": "Background"}
    await api.request("DELETE", f"{lws.PATH}/namespaces/{NAMESPACE}/disaggregatedsets")
    await api.wait_gone(lws.SETS_PATH)
    # At once: the garbage collector would take a minute over the pods.
    await api.request("DELETE", f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets", background)
    await api.wait_gone("/apis/apps/v1/statefulsets")
    await api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods")
    await api.wait_gone(pods.PATH, lws.POD_LABEL)


@contextmanager
def _cluster(state: Path, nodes: int) -> Iterator[LocalCluster]:
    cluster = LocalCluster(state, Profile.CONTROL_PLANE, simulated_nodes=nodes)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


def _pid_of(name: str, state: Path) -> int:
    return next(each.pid for each in processes.running(state) if each.name == name)
