# SPDX-License-Identifier: Apache-2.0
"""A small cluster that plans are carried out in: StatefulSets make pods, pods become ready or not, deleted ones go in their time.

Nothing happens by itself, so that a test decides what happens between two looks of the operator, and after which of its writes the
operator is killed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import REVISION_LABEL, ROLE_LABEL
from tandem_operator.api.status import Reason, Status
from tandem_operator.plan import conversation
from tandem_operator.plan.children import key_of
from tandem_operator.plan.conversation import Result
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.scaling import Numbers
from tandem_operator.plan.types import Defaults, Manifest, ObjectKey, Observed, Outcome
from tandem_operator.plan.verification import Report
from tests.builders import DEFAULTS, a_deployment
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.builders.surroundings import NOW

SHOWN = Result(conversation.Standing.SHOWN, Reason.VERIFIED)
STAMP = "%Y-%m-%dT%H:%M:%SZ"


class Cluster:
    """One resource and its surroundings."""

    def __init__(self, resource: ResourceBuilder, defaults: Defaults = DEFAULTS) -> None:
        self.resource = resource
        self.defaults = defaults
        self.at: datetime = NOW
        self.status: Status | None = None
        self.events: list[str] = []
        self.bad: Callable[[PodBuilder], bool] = lambda pod: False
        """Pods that never become ready."""
        self._reports: tuple[Report, ...] = ()
        self._children: dict[ObjectKey, dict[str, Any]] = {}
        self._pods: dict[str, PodBuilder] = {}
        self._made = 0

    def edit(self, resource: ResourceBuilder) -> None:
        """Somebody changes the spec."""
        self.resource = resource

    def wait(self, time: timedelta) -> None:
        self.at += time

    def look(self, writes: int | None = None) -> None:
        """One reconcile; killed after so many writes, if a number is given."""
        planned = plan(self.observed(), self.defaults)
        work: list[Callable[[], None]] = [
            *(self._applying(each) for each in planned.objects),
            *(self._deleting(each) for each in planned.obsolete),
            *(self._patching(each.name, each.labels, each.annotations) for each in planned.pod_patches),
            *(self._evicting(each.name) for each in planned.evictions),
        ]
        for write in work[:writes]:
            write()
        self._reports = ()
        if writes is None:
            found = self.report()
            self.status = found.status
            self.events += [event.reason for event in found.events]

    def converse(self, result: Result = SHOWN) -> None:
        """Each decode engine that may be conversed with is, about all its pairs, as the next look learns."""
        for each in self.report().targets:
            engines = {each.pod: each.place.engine, **{uid: place.engine for uid, place in each.prefills.items()}}
            results = {str(place.engine): result for place in each.prefills.values()}
            self._reports += (Report(engines=engines, decode=each.pod, results=results, fabrics={}),)

    def report(self) -> Outcome:
        return outcome(self.observed(), self.defaults, self.at)

    def control(self) -> None:
        """The StatefulSets' controller makes pods and deletes them."""
        sets = {each["metadata"]["name"]: each for each in self.sets()}
        for name, each in sets.items():
            each["status"] = {"observedGeneration": each["metadata"]["generation"], "updateRevision": "t1"}
            each["status"]["currentRevision"] = "t1"
            for ordinal in range(each["spec"]["replicas"]):
                if f"{name}-{ordinal}" not in self._pods:
                    self._pods[f"{name}-{ordinal}"] = self._pod(each, ordinal)
        for name, pod in self._pods.items():
            of, _, number = name.rpartition("-")
            if of not in sets or int(number) >= sets[of]["spec"]["replicas"]:
                self._pods[name] = pod.terminating()

    def start(self, some: Callable[[str], bool] = lambda name: True) -> None:
        """Pods that aren't bad become ready."""
        for name, pod in self._pods.items():
            if some(name) and not self.bad(pod):
                self._pods[name] = self._ready(pod)

    def fail(self, some: Callable[[str], bool]) -> None:
        """Pods become unready."""
        for name, pod in self._pods.items():
            if some(name):
                self._pods[name] = pod.unready_since(self.at.strftime(STAMP))

    def finish(self, some: Callable[[str], bool] = lambda name: True) -> None:
        """Pods that are being deleted are gone."""
        for name, pod in list(self._pods.items()):
            if some(name) and "deletionTimestamp" in pod.build()["metadata"]:
                del self._pods[name]

    def round(self) -> None:
        """All that can happen happens once."""
        self.look()
        self.control()
        self.finish()
        self.start()

    def settle(self, rounds: int = 60) -> int:
        """Rounds until nothing changes any more.

        Raises:
            AssertionError: it never comes to rest.
        """
        for number in range(rounds):
            before = self.snapshot()
            self.round()
            if self.snapshot() == before:
                return number
        raise AssertionError(f"not at rest after {rounds} rounds: {self.snapshot()}")

    def snapshot(self) -> Any:
        sets = sorted((each["metadata"]["name"], each["spec"]["replicas"]) for each in self.sets())
        known = self.pods()
        pods = [(pod.name, pod.labelled_routable) for pod in known]
        told = [(pod.ready, pod.annotations) for pod in known], len(self._reports)
        return sets, pods, told, sorted(key for key in self._children if key.kind == "ControllerRevision")

    def sets(self) -> list[dict[str, Any]]:
        return [each for key, each in self._children.items() if key.kind == "StatefulSet"]

    def records(self) -> list[dict[str, Any]]:
        return [each for key, each in self._children.items() if key.kind == "ControllerRevision"]

    def change(self, kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Somebody changes a child."""
        change(next(each for key, each in self._children.items() if (key.kind, key.name) == (kind, name)))

    def remove(self, kind: str, name: str) -> None:
        """Somebody deletes a child."""
        self._children = {key: each for key, each in self._children.items() if (key.kind, key.name) != (kind, name)}

    def pods(self) -> tuple[EnginePod, ...]:
        return engine_pods(self.observed())

    def of(self, pods: Iterable[EnginePod]) -> Numbers:
        """How many there are of each role."""
        found = list(pods)
        return Numbers.by(lambda role: sum(pod.role is role for pod in found))

    def taking_turns(self) -> Numbers:
        return self.of(pod for pod in self.pods() if pod.takes_requests)

    def held(self) -> Numbers:
        """Engines that there are or may be made at any moment."""
        return Numbers.by(lambda role: sum(self._held(each) for each in self.sets() if _role(each) is role))

    def gpus(self) -> int:
        """Of the same."""
        return sum(self._held(each) * _gpus(each) for each in self.sets())

    def revisions(self) -> set[str]:
        """Of the pods that there are."""
        return {pod.revision for pod in self.pods()}

    def observed(self) -> Observed:
        return Observed(
            resource=self.resource.with_status(self.status).build(),
            at=self.at,
            sets=tuple(self.sets()),
            revisions=tuple(self.records()),
            front_door=a_deployment(),
            owned=frozenset(self._children),
            pods=tuple(pod.build() for pod in self._pods.values()),
            reports=self._reports,
        )

    def _held(self, stateful_set: Manifest) -> int:
        name, replicas = str(stateful_set["metadata"]["name"]), int(stateful_set["spec"]["replicas"])
        return max(replicas, sum(each.rpartition("-")[0] == name for each in self._pods))

    def _applying(self, manifest: Manifest) -> Callable[[], None]:
        def write() -> None:
            key = key_of(manifest)
            present = self._children.get(key)
            own: dict[str, Any]
            if present is None:
                self._made += 1
                own = {"uid": f"child-{self._made}", "generation": 1, "creationTimestamp": self.at.strftime(STAMP)}
            else:
                own = {field: present["metadata"][field] for field in ("uid", "generation", "creationTimestamp")}
                own["generation"] += present.get("spec") != manifest.get("spec")
            made = {**manifest, "metadata": {**manifest["metadata"], **own}}
            self._children[key] = {**made, **({"status": present["status"]} if present and "status" in present else {})}

        return write

    def _deleting(self, key: ObjectKey) -> Callable[[], None]:
        def write() -> None:
            self._children.pop(key, None)

        return write

    def _patching(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Callable[[], None]:
        def write() -> None:
            self._pods[name] = self._pods[name].patched(labels, annotations)

        return write

    def _evicting(self, name: str) -> Callable[[], None]:
        def write() -> None:
            self._pods[name] = self._pods[name].terminating()

        return write

    def _pod(self, stateful_set: Manifest, ordinal: int) -> PodBuilder:
        self._made += 1
        template = stateful_set["spec"]["template"]
        labels = {**template["metadata"]["labels"], "controller-revision-hash": "t1"}
        return PodBuilder(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{stateful_set['metadata']['name']}-{ordinal}",
                    "namespace": "models",
                    "uid": f"00000000-0000-4000-8000-{self._made:012d}",
                    "creationTimestamp": self.at.strftime(STAMP),
                    "labels": labels,
                },
                "spec": template["spec"],
                "status": {"phase": "Pending"},
            }
        ).with_address(f"10.0.{self._made // 250}.{self._made % 250}")

    def _ready(self, pod: PodBuilder) -> PodBuilder:
        if any(each.get("status") == "True" for each in pod.build()["status"].get("conditions", ())):
            return pod
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": self.at.strftime(STAMP)}
        running = pod.running().build()
        running["status"]["conditions"] = [condition]
        return PodBuilder(running)


def upgraded(cluster: Cluster) -> None:
    """Another version of the operator takes over, which would render other pods."""
    cluster.defaults = replace(cluster.defaults, connector_image="tandem.dev/connector-init:9.9.9")


def of_revision(name: str) -> Callable[[PodBuilder], bool]:
    return lambda pod: bool(pod.build()["metadata"]["labels"][REVISION_LABEL] == name)


def _role(stateful_set: Manifest) -> Role:
    return Role(stateful_set["metadata"]["labels"][ROLE_LABEL])


def _gpus(stateful_set: Manifest) -> int:
    (engine,) = stateful_set["spec"]["template"]["spec"]["containers"]
    return int(engine.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
