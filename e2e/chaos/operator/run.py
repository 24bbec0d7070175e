# SPDX-License-Identifier: Apache-2.0
"""One run: control plane, resources and two replicas of the operator, one fault after the other, and what is left of each."""

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from e2e.chaos.operator import of_api, of_objects, of_replicas
from e2e.chaos.operator.proxy import Proxy
from e2e.chaos.operator.replicas import LEASE_DURATION, Replica, Replicas
from e2e.chaos.operator.resting import Standing
from e2e.chaos.operator.scene import NO_ANSWER, Scene
from e2e.chaos.operator.snapshot import Snapshot
from e2e.chaos.operator.verdict import Fault, Run
from e2e.chaos.operator.writers import unleased
from e2e.cluster.interface import ClusterError, GaveUpError
from e2e.cluster.local import processes
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.state import Profile, Record
from e2e.definitions import wait_until_established
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import rights, write_kubeconfig
from e2e.suite.served import a_resource
from tandem_operator.api.crd import DEFINITIONS

Inject: TypeAlias = Callable[[Scene], None]

FAULTS: dict[str, Inject] = {each.__name__: each for each in (*of_replicas.FAULTS, *of_api.FAULTS, *of_objects.FAULTS)}
_ACCOUNT = "tandem-operator"
_NAMESPACE = "chaos"
_NODES = 8


@dataclass(frozen=True)
class Plan:
    """How a run is to be."""

    seed: int
    faults: int = len(FAULTS)
    """How many; each kind once before one comes again."""
    slack: float = 1.0
    """How many times as long as on two cores that do nothing else all that is waited for may take."""
    only: str = ""
    """These kinds, separated by commas, in this order; else all of them, in an order that is drawn."""

    def course(self) -> list[str]:
        """The kinds, in their order."""
        if self.only:
            return self.only.split(",")
        drawn = random.Random(f"course {self.seed}")
        kinds: list[str] = []
        while len(kinds) < self.faults:
            kinds += drawn.sample(sorted(FAULTS), len(FAULTS))
        return kinds[: self.faults]


def chaos(plan: Plan, folder: Path, kept: Path, say: Callable[[str], None]) -> Run:
    """Carry the plan out on a control plane that is made for it, and ended in any case.

    Args:
        plan: how.
        folder: takes the logs.
        kept: where the control plane is; what a run left there that was killed is ended first.
        say: is told of each fault.

    Raises:
        ClusterError: the control plane can't be had.
        GaveUpError: it doesn't come to faults.
    """
    state = kept / "cluster"
    cluster = LocalCluster(state, Profile.CONTROL_PLANE, simulated_nodes=_NODES)
    processes.end(kept)
    cluster.down()
    try:
        cluster.up()
        with _operated(plan, cluster, state, folder) as scene:
            return _on(plan, scene, say)
    finally:
        if (logs := Layout(state).log("etcd").parent).exists():
            shutil.copytree(logs, folder / "control-plane", dirs_exist_ok=True)
        cluster.down()


@contextmanager
def _operated(plan: Plan, cluster: LocalCluster, state: Path, folder: Path) -> Iterator[Scene]:
    """Two replicas of the operator that run."""
    kubectl = Kubectl(cluster, _NAMESPACE)
    kubectl.run("create", "namespace", _NAMESPACE)
    kubectl.apply(*(each.manifest() for each in DEFINITIONS))
    wait_until_established(kubectl, *(each.name for each in DEFINITIONS))
    kubeconfig = write_kubeconfig(cluster, _ACCOUNT, folder / "kubeconfig")
    with ExitStack() as stack:
        proxies = [stack.enter_context(each) for each in _proxies(state, plan.seed)]
        replicas = Replicas([Replica(proxy, kubeconfig, state.parent) for proxy in proxies])
        stack.callback(replicas.end)
        for each in replicas.all:
            each.start()
        yield Scene(
            cluster,
            state,
            folder=folder,
            kubectl=kubectl,
            replicas=replicas,
            rights=rights(_ACCOUNT),
            seed=plan.seed,
            slack=plan.slack,
        )


def _on(plan: Plan, scene: Scene, say: Callable[[str], None]) -> Run:
    resources = _resources()
    scene.kubectl.apply(*resources)
    scene.begin(Standing.wanted(resources))
    scene.settle()
    faults = list(_faults(plan, scene, say))
    replicas = scene.replicas.all
    asked = [request for each in replicas for request in each.proxy.asked()]
    ends = [(each.proxy.name, at) for each in replicas for at in each.ends]
    return Run(
        faults=faults,
        wanted=len(plan.course()),
        unleased=unleased(asked, LEASE_DURATION, ends),
        anew=sum(each.anew for each in replicas),
    )


def _faults(plan: Plan, scene: Scene, say: Callable[[str], None]) -> Iterator[Fault]:
    """Each fault and what was left of it; the first one after which it did not come to rest is the last."""
    for number, name in enumerate(plan.course(), 1):
        fault = _fault(name, scene)
        say(f"fault {number} of {len(plan.course())}: {fault.said()}")
        yield fault
        if fault.unsettled is not None:
            return


def _fault(name: str, scene: Scene) -> Fault:
    before = Standing.of(scene.look())
    scene.begin(before)
    began = time.monotonic()
    problem = unsettled = None
    try:
        FAULTS[name](scene)
    except (ClusterError, OSError, *NO_ANSWER) as error:
        problem = f"it does not show what it should: {error}"
    over = time.monotonic()
    try:
        rest = scene.settle()
        settled_after, snapshot = rest.at - over, rest.snapshot
    except GaveUpError as error:
        settled_after, unsettled, snapshot = None, str(error), _last_look(scene)
    lost, restarted = before.missed(snapshot, scene.removed)
    return Fault(name, over - began, settled_after, problem, unsettled, snapshot.ghosts(), lost, restarted)


def _last_look(scene: Scene) -> Snapshot:
    try:
        return scene.look()
    except NO_ANSWER:
        return Snapshot.of(())


def _proxies(state: Path, seed: int) -> Sequence[Proxy]:
    layout = Layout(state)
    record = Record.read(layout)
    assert record is not None
    return [Proxy(name, record.endpoints.server, layout.certificate("ca"), seed) for name in ("first", "second")]


def _resources() -> list[dict[str, Any]]:
    """Three, of which one pulls, and one has the numbers of its engines from scalers."""
    one = {"parallelism": {"tensor": 1}}
    scaled = {**one, "replicas": 2, "autoscaling": {"minReplicas": 1, "maxReplicas": 3}}
    specs: dict[str, dict[str, Any]] = {
        "chat": {"prefill": {**one, "replicas": 2}, "decode": {**one, "replicas": 3}},
        "code": {"prefill": scaled, "decode": scaled},
        "pull": {
            "prefill": {**one, "replicas": 1},
            "decode": {**one, "replicas": 2},
            "transfer": {"protocol": "NixlPull"},
        },
    }
    return [{**a_resource(**spec), "metadata": {"name": name}} for name, spec in specs.items()]
