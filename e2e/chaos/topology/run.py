# SPDX-License-Identifier: Apache-2.0
"""One run: cluster, operator and engines, load and changes for as long as is asked for, then rest and a look at what is left."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.chaos.topology.carry_out import Carrier
from e2e.chaos.topology.changes import Bounds, Change, Chooser
from e2e.chaos.topology.clients import Clients
from e2e.chaos.topology.expected import expected_answers
from e2e.chaos.topology.journals import Journals
from e2e.chaos.topology.pods import Pods
from e2e.chaos.topology.tables import unsettled
from e2e.chaos.topology.talks import talks
from e2e.chaos.topology.verdict import Run
from e2e.cluster.interface import Cluster, ClusterError
from e2e.engine.environment import EngineEnvironment, build_environment
from e2e.engine.model import cached_model
from e2e.installation import front_door, install_operator, load_images
from e2e.kubectl import Kubectl
from e2e.ready import READY_WITHIN, wait_until_ready
from e2e.sample import cpu_resource
from e2e.soak.run import SHAPE
from tandem_connector.contract.environment import JOURNAL, POD_UID

LINE_EVERY = 10.0
PAUSE = 2.0
"""Seconds between two looks for a change that can be made."""
REST_WITHIN = 120.0
"""Seconds in which all must be known and given back once all engines are ready: a want's time to live, and the transport's bound."""
_JOURNALS = "/journals"


@dataclass(frozen=True)
class Plan:
    """How a run is to be."""

    seed: int
    minutes: float = 10.0
    """Of load and changes; starting, and the look at the end, come on top."""
    most: int = 4
    """Engines at any time, of both roles together; 3 or 4."""
    clients: int = 6
    """Conversations at the same time."""
    talks: int = 80
    """Different conversations. When all have been held they are held again, and count no more for what had to be computed again."""
    slack: float = 1.0
    """How many times as long as on two cores that do nothing else all that is waited for may take."""
    migrate: bool = True
    """Whether engines hand over what they hold."""

    @property
    def bounds(self) -> Bounds:
        """Two of a role at most, and `most` in all."""
        return Bounds(2, self.most)


def chaos(plan: Plan, cluster: Cluster, folder: Path, kept: Path) -> Run:
    """Carry the plan out on a cluster that is made for it, and ended in any case.

    Args:
        plan: how.
        cluster: where; what there was in it is ended first.
        folder: takes the engines' journals and logs.
        kept: what a plain engine answers is kept here for other runs.

    Raises:
        ClusterError: the cluster can't be used.
    """
    environment, model = build_environment(), cached_model(shape=SHAPE)
    conversations = talks(plan.talks)
    answers = expected_answers(environment, model, conversations, kept)
    journals = folder / "journals"
    journals.mkdir()
    with _installed(cluster, environment):
        if not cluster.facts().is_local:
            raise ClusterError("the engines' journals are read from this machine's disk: use CLUSTER=local")
        kubectl = Kubectl(cluster)
        resource = _resource(plan, cluster, environment, model, journals)
        name = resource["metadata"]["name"]
        with Pods(cluster, name) as pods:
            kubectl.apply(resource)
            wait_until_ready(kubectl, name, READY_WITHIN * plan.slack)
            with front_door(cluster, kubectl, name) as url:
                clients = Clients(url, conversations, answers, plan.seed, slack=plan.slack)
                churn = _Churn(plan, kubectl, name, pods, clients)
                try:
                    asyncio.run(churn.run())
                    began = time.monotonic()
                    left = _settled(kubectl, name, REST_WITHIN * plan.slack)
                    settled_after = time.monotonic() - began
                finally:
                    _keep_logs(kubectl, pods, folder)
        return Run(clients.turns, churn.changes, pods.lives, Journals.of(journals), left, settled_after)


@contextmanager
def _installed(cluster: Cluster, environment: EngineEnvironment) -> Iterator[None]:
    cluster.down()
    try:
        cluster.up()
        load_images(cluster, environment)
        install_operator(cluster)
        yield
    finally:
        cluster.down()


def _resource(
    plan: Plan, cluster: Cluster, environment: EngineEnvironment, model: Path, journals: Path
) -> dict[str, Any]:
    """The CPU sample, its numbers left to scalers, its engines with journals."""
    resource = cpu_resource(cluster.facts(), environment, model)
    spec = resource["spec"]
    spec["scaling"] = {"drain": {"migrate": plan.migrate}}
    spec["engine"]["env"].append({"name": JOURNAL, "value": f"{_JOURNALS}/$({POD_UID})"})
    for role in ("prefill", "decode"):
        spec[role]["autoscaling"] = {"minReplicas": 1, "maxReplicas": plan.bounds.role}
        template = spec[role]["podTemplate"]["spec"]
        template["containers"][0]["volumeMounts"].append({"name": "journals", "mountPath": _JOURNALS})
        template["volumes"].append({"name": "journals", "hostPath": {"path": str(journals), "type": "Directory"}})
    spec["decode"]["replicas"] = plan.bounds.role
    return resource


def _settled(kubectl: Kubectl, name: str, within: float) -> str | None:
    """What isn't as it should be after so many seconds."""
    end = time.monotonic() + within
    while (left := unsettled(kubectl, name)) is not None and time.monotonic() < end:
        time.sleep(1.0)
    return left


def _keep_logs(kubectl: Kubectl, pods: Pods, folder: Path) -> None:
    for life in pods.present():
        (folder / f"{life.name}.log").write_text(kubectl.run("logs", life.name, "-c", "engine"))


class _Churn:
    def __init__(self, plan: Plan, kubectl: Kubectl, resource: str, pods: Pods, clients: Clients) -> None:
        self._plan = plan
        self._kubectl = kubectl
        self._resource = resource
        self._pods = pods
        self._clients = clients
        self._carrier = Carrier(kubectl, resource)
        self._chooser = Chooser(plan.seed)
        self._began = time.monotonic()
        self.changes: list[Change] = []

    async def run(self) -> None:
        """Load and changes, and load until all engines are ready."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
        over = asyncio.Event()
        telling = asyncio.create_task(self._tell())
        try:
            async with asyncio.TaskGroup() as talking:
                for client in range(self._plan.clients):
                    talking.create_task(self._clients.talk(client, over))
                try:
                    await self._change(self._began + self._plan.minutes * 60)
                    await asyncio.to_thread(
                        wait_until_ready, self._kubectl, self._resource, READY_WITHIN * self._plan.slack
                    )
                finally:
                    over.set()
        finally:
            telling.cancel()
            await self._clients.close()

    async def _change(self, until: float) -> None:
        while time.monotonic() < until:
            pods = self._pods.seen()
            self._clients.starting = not all(pod.ready or pod.ends for pod in pods)
            change = self._chooser.next(pods, self._plan.bounds)
            if change is not None:
                self.changes.append(change)
                self._say(f"{change.kind} {change.pod}")
                await self._make(change)
            await asyncio.sleep(PAUSE)

    async def _make(self, change: Change) -> None:
        """Until the API server tells of it: what comes next is chosen from what is seen."""
        before = {life.uid for life in self._pods.present() if life.name == change.pod}
        await asyncio.to_thread(self._carrier.carry_out, change)
        for _ in range(100):
            now = {life.uid for life in self._pods.present() if life.name == change.pod and life.deleted is None}
            if now != before:
                return
            await asyncio.sleep(0.1)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(LINE_EVERY)
            pods = ", ".join(
                f"{pod.name} {'ends' if pod.ends else 'ready' if pod.ready else 'starts'}" for pod in self._pods.seen()
            )
            self._say(f"{len(self._clients.turns)} turns, {self._clients.under_way} under way; {pods}")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:.0f} s: {text}", flush=True)
