# SPDX-License-Identifier: Apache-2.0
"""One run: cluster, operator and engines, load and changes for as long as is asked for, then rest and a look at what is left."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from e2e.chaos.topology.carry_out import Carrier
from e2e.chaos.topology.changes import Bounds, Chooser
from e2e.chaos.topology.changing import Changing
from e2e.chaos.topology.churn import Churn
from e2e.chaos.topology.clients import Clients
from e2e.chaos.topology.expected import expected_answers
from e2e.chaos.topology.journals import Journals
from e2e.chaos.topology.pods import Pods
from e2e.chaos.topology.tables import unsettled
from e2e.chaos.topology.talks import talks
from e2e.chaos.topology.verdict import Run
from e2e.cluster.interface import Cluster, ClusterError
from e2e.cluster.local.cluster import LocalCluster
from e2e.engine.environment import EngineEnvironment, build_environment
from e2e.engine.model import cached_model
from e2e.installation import front_door, install_operator, is_ready, load_images
from e2e.kubectl import Kubectl, KubectlError
from e2e.ready import READY_WITHIN, wait_until_ready
from e2e.sample import cpu_resource
from e2e.soak.run import SHAPE
from tandem_connector.contract.environment import JOURNAL, POD_UID

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
        cluster: where; what there is in it, also what a run left that was killed, is ended first.
        folder: takes the engines' journals and logs.
        kept: what a plain engine answers is kept here for other runs.

    Raises:
        ClusterError: the cluster can't be used.
        NotReadyError: the first engines don't start.
    """
    if cluster.name != LocalCluster.name:
        raise ClusterError("the engines' journals are read from this machine's disk: use CLUSTER=local")
    cluster.down()
    environment, model = build_environment(), cached_model(shape=SHAPE)
    conversations = talks(plan.talks)
    answers = expected_answers(environment, model, conversations, kept)
    journals = folder / "journals"
    journals.mkdir()
    with _installed(cluster, environment):
        kubectl = Kubectl(cluster)
        resource = _resource(plan, cluster, environment, model, journals)
        name = resource["metadata"]["name"]
        with Pods(kubectl, name) as pods, _logs(kubectl, pods, folder):
            kubectl.apply(resource)
            wait_until_ready(kubectl, name, READY_WITHIN * plan.slack)
            with front_door(cluster, kubectl, name) as url:
                clients = Clients(url, conversations, answers, plan.seed, slack=plan.slack)
                changing = Changing(pods, Carrier(kubectl, name), Chooser(plan.seed), plan.bounds, say := _saying())
                churn = Churn(
                    pods, clients, changing, is_ready=lambda: is_ready(kubectl.get("pdi", name) or {}), say=say
                )
                asyncio.run(churn.run(plan.minutes * 60, plan.clients, READY_WITHIN * plan.slack))
            began = time.monotonic()
            left = _settled(kubectl, name, REST_WITHIN * plan.slack)
            settled_after = time.monotonic() - began
        return Run(
            turns=clients.turns,
            changes=changing.made,
            undone=changing.undone,
            lives=pods.lives,
            journals=Journals.of(journals),
            unsettled=left,
            settled_after=settled_after,
        )


@contextmanager
def _installed(cluster: Cluster, environment: EngineEnvironment) -> Iterator[None]:
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
    # The most that there may be, from the beginning.
    spec["decode"]["replicas"] = plan.bounds.role
    spec["prefill"]["replicas"] = plan.most - plan.bounds.role
    # Room for 65,536 tokens, which all conversations at a time need less than half of, in 384 MiB: four engines fit into 16 GB.
    spec["engine"]["args"].append("--num-gpu-blocks-override=2048")
    return resource


def _saying() -> Callable[[str], None]:
    """Prints lines, with the seconds from now on."""
    began = time.monotonic()
    return lambda text: print(f"{time.monotonic() - began:.0f} s: {text}", flush=True)


def _settled(kubectl: Kubectl, name: str, within: float) -> str | None:
    """What isn't as it should be after so many seconds."""
    end = time.monotonic() + within
    while (left := _left(kubectl, name)) is not None and time.monotonic() < end:
        time.sleep(1.0)
    return left


def _left(kubectl: Kubectl, name: str) -> str | None:
    try:
        return unsettled(kubectl, name)
    except (KubectlError, httpx.HTTPError) as error:
        return f"an engine does not answer: {error}"


@contextmanager
def _logs(kubectl: Kubectl, pods: Pods, folder: Path) -> Iterator[None]:
    """At the end, what the engines that there are have said is in the folder, as far as it can be had."""
    try:
        yield
    finally:
        for life in pods.present():
            with suppress(KubectlError):
                (folder / f"{life.name}.log").write_text(kubectl.run("logs", life.name, "-c", "engine"))
