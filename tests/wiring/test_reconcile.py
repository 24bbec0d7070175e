# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import Role
from tandem_operator.api.names import (
    PEERS_ANNOTATION,
    PLURAL,
    RESOURCE_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SCALER_PLURAL,
    VERIFICATION_ANNOTATION,
    VERIFY_ANNOTATION,
)
from tandem_operator.api.status import Reason
from tandem_operator.kube.apply import Applier
from tandem_operator.kube.children import Children
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Conflict
from tandem_operator.kube.kinds import CHILD_KINDS
from tandem_operator.kube.news import News
from tandem_operator.kube.nodes import Nodes
from tandem_operator.kube.observe import Observer, ResourceKey
from tandem_operator.kube.permissions import RULES, Rule
from tandem_operator.kube.watches import Watches
from tandem_operator.metrics import Metrics
from tandem_operator.plan.children import KINDS
from tandem_operator.plan.conversation import Result, Standing
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.target import Target, report_of
from tandem_operator.plan.types import Observed, Outcome, Plan
from tandem_operator.plan.verification import Report
from tandem_operator.wiring.reconcile import Reconciler
from tests.builders import DEFAULTS, a_node, a_pod, a_ready_pod, a_resource
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.kube.fake_api import FakeApi
from tests.kube.test_client import IMMUTABLE_SET, failure

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = ResourceKey("models", "qwen")


class HeldElsewhere:
    """Conversations that a test says have been held."""

    def __init__(self) -> None:
        self.held: list[Report] = []
        self.targets: tuple[Target, ...] = ()

    def reports(self, _: ResourceKey) -> tuple[Report, ...]:
        return tuple(self.held)

    def written(self, _: ResourceKey, reports: Sequence[Report]) -> None:
        self.held = [each for each in self.held if each not in reports]

    def follow(self, _: ResourceKey, targets: Iterable[Target]) -> None:
        self.targets = tuple(targets)

    def forget(self, _: ResourceKey) -> None:
        self.targets, self.held = (), []


class Bench:
    """A reconciler on a fake API server."""

    def __init__(self, api: FakeApi, client: Client, metrics: Metrics) -> None:
        self.api = api
        self.gone: list[ResourceKey] = []
        self.metrics = metrics
        self.nodes: Nodes[ResourceKey] = Nodes(client)
        watches = Watches(frozenset(), request_limit=1, echo_limit=1)
        self.news: News[ResourceKey] = News()
        self.conversations = HeldElsewhere()
        self.applier = Applier(client, metrics, watches, self.news, reporter="replica-1")
        # Nobody tells of what tests change in the API server, so nothing may be remembered, until a test says otherwise.
        self._children = Children(client, self.news, known_for=0)
        self._client = client
        self._usual = self.reconciler()

    def reconciler(self, **changes: Any) -> Reconciler:
        options = {
            "defaults": DEFAULTS,
            "plan": plan,
            "outcome": outcome,
            "on_gone": self.gone.append,
            "resync": 600.0,
            "timeout": 10.0,
            "now": lambda: NOW,
        }
        observer = Observer(self._client, self.news, changes.pop("children", self._children), self.nodes)
        return Reconciler(
            self._client, observer, self.applier, self.conversations, self.metrics, **{**options, **changes}
        )

    async def reconcile(self, key: ResourceKey = KEY) -> float | None:
        return await self._usual(key)

    def store(self, resource: ResourceBuilder) -> dict[str, Any]:
        return self.api.put(PLURAL, resource.manifest())

    def store_pod(self, pod: PodBuilder, role: Role) -> dict[str, Any]:
        """A pod that the role's set made."""
        stateful_set = self.api.get("statefulsets", f"qwen-{role}") or {}
        manifest = pod.build()
        uid = stateful_set["metadata"]["uid"]
        manifest["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "x", "uid": uid, "controller": True}]
        return self.api.put("pods", manifest)

    def run_engines(self) -> None:
        """One engine of each role, as the sets now want them."""
        for role in Role:
            stateful_set = self.api.get("statefulsets", f"qwen-{role}") or {}
            labels = stateful_set["spec"]["template"]["metadata"]["labels"]
            self.store_pod(a_ready_pod(role).of_revision(labels[REVISION_LABEL]), role)

    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = (self.api.get(PLURAL, "qwen") or {})["status"]
        return status

    def condition(self, kind: str) -> Mapping[str, Any]:
        return next(each for each in self.status()["conditions"] if each["type"] == kind)

    def stored(self, plural: str) -> list[str]:
        return sorted(key.name for key in self.api.objects if key.plural == plural)


@pytest.fixture
async def bench(api: FakeApi, client: Client, metrics: Metrics) -> Bench:
    return Bench(api, client, metrics)


async def test_a_new_resource_gets_its_children_a_status_and_an_event(bench: Bench) -> None:
    bench.store(a_resource())
    again = await bench.reconcile()
    assert bench.stored("statefulsets") == ["qwen-decode", "qwen-prefill"]
    assert bench.stored("services") == ["qwen", "qwen-decode", "qwen-prefill"]
    assert bench.stored("deployments") == ["qwen"]
    assert bench.condition("SpecValid")["status"] == "True"
    assert bench.condition("Ready")["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert bench.stored("events") != []
    assert again is not None
    assert again <= 600


async def test_a_second_look_at_the_same_writes_nothing(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.run_engines()
    await bench.reconcile()
    await bench.reconcile()
    writes = len(bench.api.writes)
    await bench.reconcile()
    assert len(bench.api.writes) == writes


async def test_a_look_for_a_pod_reads_the_resource_and_its_pods_only(bench: Bench, client: Client) -> None:
    remembering = bench.reconciler(children=Children(client, bench.news))
    bench.store(a_resource())
    await remembering(KEY)
    bench.run_engines()
    await remembering(KEY)
    before = len(bench.api.reads)
    bench.store_pod(a_pod(Role.PREFILL, 1).with_address("10.0.0.9").running(), Role.PREFILL)
    await remembering(KEY)
    assert [path.rpartition("/")[2] for path in bench.api.reads[before:]] == ["qwen", "pods"]


async def test_all_is_read_anew_for_a_resource_that_somebody_touched(bench: Bench, client: Client) -> None:
    remembering = bench.reconciler(children=Children(client, bench.news))
    bench.store(a_resource())
    await remembering(KEY)
    bench.api.remove("services", "qwen-decode")
    await remembering(KEY)
    assert "qwen-decode" not in bench.stored("services"), "nobody reports it"
    touched = bench.store(a_resource().of_generation(2))["metadata"]
    bench.news.heard(KEY, PLURAL, "MODIFIED", {**touched, "resourceVersion": str(int(touched["resourceVersion"]) + 1)})
    await remembering(KEY)
    assert "qwen-decode" in bench.stored("services")


async def test_a_look_that_failed_is_followed_by_one_that_remembers_nothing(bench: Bench, client: Client) -> None:
    remembering = bench.reconciler(children=Children(client, bench.news))
    bench.store(a_resource())
    bench.api.answer("PATCH", "/services/qwen", failure(409, "conflict"))
    with pytest.raises(Conflict):
        await remembering(KEY)
    before = len(bench.api.reads)
    await remembering(KEY)
    assert {"services", "statefulsets"} < {path.rpartition("/")[2] for path in bench.api.reads[before:]}


async def test_the_key_is_there_before_the_engines_that_mount_it_and_stays_as_it_is(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    made = [path.rpartition("/")[2] for method, path, _ in bench.api.writes if method in {"POST", "PATCH"}]
    assert made.index("secrets") < made.index("qwen-decode")
    (name,) = bench.stored("secrets")
    before = bench.api.get("secrets", name)
    await bench.reconcile()
    assert bench.api.get("secrets", name) == before


async def test_a_key_that_is_gone_is_made_anew_for_engines_that_are_to_start(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    (name,) = bench.stored("secrets")
    bench.run_engines()
    bench.api.remove("secrets", name)
    await bench.reconcile()
    assert bench.stored("secrets") == [], "those that run have read it"
    bench.api.remove("pods", "qwen-decode-0")
    await bench.reconcile()
    assert bench.stored("secrets") == [name]


async def test_engines_that_wait_for_the_users_key_degrade_the_resource_until_it_is_there(bench: Bench) -> None:
    reference = {"secretRef": {"name": "keys", "key": "chat"}}
    bench.store(a_resource().with_spec("transfer", "auth", value=reference))
    await bench.reconcile()
    assert (bench.condition("Degraded")["status"], bench.condition("Degraded")["reason"]) == ("True", "KeyMissing")
    assert bench.stored("secrets") == []
    metadata = {"name": "keys", "namespace": "models"}
    bench.api.put("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    await bench.reconcile()
    assert bench.condition("Degraded")["status"] == "False"


async def test_a_key_that_the_server_refuses_is_reported(bench: Bench) -> None:
    bench.store(a_resource())
    bench.api.answer("POST", "/secrets", failure(403, "exceeded quota"))
    await bench.reconcile()
    assert bench.condition("Degraded")["reason"] == "ApplyFailed"
    assert "exceeded quota" in bench.condition("Degraded")["message"]
    assert bench.stored("statefulsets") == ["qwen-decode", "qwen-prefill"]


async def test_engine_pods_get_peer_tables_with_what_their_nodes_say(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    for name in ("node-p", "node-d", "node-of-others"):
        bench.api.put("nodes", a_node(name).in_zone("zone-1").build())
    bench.store_pod(a_ready_pod(Role.PREFILL).on_node("node-p"), Role.PREFILL)
    bench.store_pod(a_ready_pod(Role.DECODE).on_node("node-d"), Role.DECODE)
    await bench.reconcile()
    table = (bench.api.get("pods", "qwen-decode-0") or {})["metadata"]["annotations"][PEERS_ANNOTATION]
    assert '"zone":"zone-1"' in table
    read = [path for path in bench.api.reads if "/nodes/" in path]
    assert sorted(read) == ["/api/v1/nodes/node-d", "/api/v1/nodes/node-p"]
    assert bench.nodes.changed("node-p") == [KEY]


async def test_what_is_reported_is_what_was_applied_in_the_same_look(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.store_pod(a_ready_pod(Role.PREFILL), Role.PREFILL)
    bench.store_pod(a_ready_pod(Role.DECODE), Role.DECODE)
    await bench.reconcile()
    assert bench.status()["topology"]["pairs"] == 1


async def test_a_pod_that_its_set_was_deleted_without_is_not_gone_until_it_is_deleted_itself(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    prefill = bench.store_pod(a_ready_pod(Role.PREFILL), Role.PREFILL)
    bench.store_pod(a_ready_pod(Role.DECODE), Role.DECODE)
    await bench.reconcile()

    def table() -> PeerTable:
        decode = bench.api.get("pods", "qwen-decode-0") or {}
        return PeerTable.model_validate_json(decode["metadata"]["annotations"][PEERS_ANNOTATION])

    bench.api.put("pods", {**prefill, "metadata": {**prefill["metadata"], "ownerReferences": []}})
    await bench.reconcile()
    assert (table().peers, table().gone) == ((), ())
    bench.api.remove("pods", "qwen-prefill-0")
    await bench.reconcile()
    assert (table().peers, table().gone) == ((), (prefill["metadata"]["uid"],))


@pytest.mark.parametrize("label", [ROLE_LABEL, RESOURCE_LABEL])
async def test_a_pod_that_its_set_let_go_for_want_of_a_label_runs_on_and_is_not_gone(bench: Bench, label: str) -> None:
    """As one takes a pod out of service to look at it: Kubernetes removes its owner, and leaves it as it is."""
    bench.store(a_resource())
    await bench.reconcile()
    bench.run_engines()
    await bench.reconcile()
    metadata = (prefill := bench.api.get("pods", "qwen-prefill-0") or {})["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name != label}
    bench.api.put("pods", {**prefill, "metadata": {**metadata, "labels": labels, "ownerReferences": []}})
    await bench.reconcile()
    decode = bench.api.get("pods", "qwen-decode-0") or {}
    table = PeerTable.model_validate_json(decode["metadata"]["annotations"][PEERS_ANNOTATION])
    assert (table.peers, table.gone) == ((), ())


async def test_pods_that_a_former_resource_left_are_not_engines_of_this_one(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    leftover = a_ready_pod(Role.DECODE).build()
    leftover["metadata"]["ownerReferences"] = [
        {"kind": "StatefulSet", "name": "x", "uid": "former", "controller": True}
    ]
    bench.api.put("pods", leftover)
    await bench.reconcile()
    assert bench.status()["decode"]["replicas"] == 0


@pytest.mark.parametrize("state", ["gone", "going"])
async def test_nothing_is_written_for_a_resource_that_is_gone_or_going(bench: Bench, state: str) -> None:
    if state == "going":
        bench.store(a_resource().being_deleted())
    assert await bench.reconcile() is None
    assert bench.api.writes == []
    assert bench.gone == [KEY]


async def test_what_is_remembered_goes_with_the_resource(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.api.remove(PLURAL, "qwen")
    await bench.reconcile()
    assert bench.applier._last == {}
    assert bench.nodes._used == {}


async def test_a_resource_recreated_under_the_same_name_owns_its_children(bench: Bench) -> None:
    """The garbage collector has not come around yet to what the former one left."""
    bench.store(a_resource())
    await bench.reconcile()
    bench.api.remove(PLURAL, "qwen")
    successor = a_resource().manifest()
    successor["metadata"]["uid"] = "successor"
    bench.api.put(PLURAL, successor)
    for _ in range(20):
        if await bench.reconcile() != 0.5:
            break
    # The former one's revision has a name that is its alone, and is in nobody's way.
    plurals = {kind.plural for kind in CHILD_KINDS} - {"controllerrevisions"}
    children = [item for key, item in bench.api.objects.items() if key.plural in plurals]
    assert {child["metadata"]["ownerReferences"][0]["uid"] for child in children} == {"successor"}
    assert bench.stored("statefulsets") == ["qwen-decode", "qwen-prefill"]


async def test_a_resource_deleted_while_it_is_planned_is_not_brought_back(bench: Bench) -> None:
    bench.store(a_resource())

    def plan_while_it_goes(observed: Observed, defaults: Any) -> Plan:
        bench.api.remove(PLURAL, "qwen")
        return Plan((), (), ())

    again = await bench.reconciler(plan=plan_while_it_goes)(KEY)
    assert again is not None
    assert bench.stored(PLURAL) == []


async def test_a_resource_that_cannot_be_read_says_which_field_and_leaves_children_alone(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    before = bench.stored("statefulsets")
    bench.store(a_resource().with_spec("decode", "replicas", value="many").of_generation(2))
    again = await bench.reconcile()
    condition = bench.condition("SpecValid")
    assert (condition["status"], condition["reason"]) == ("False", "Invalid")
    assert "spec.decode.replicas" in condition["message"]
    assert bench.condition("Ready")["status"] == "False"
    assert bench.stored("statefulsets") == before
    assert again is not None
    writes = len(bench.api.writes)
    await bench.reconcile()
    assert len(bench.api.writes) == writes, "it is said once"


async def test_an_unreadable_resource_at_first_sight_has_all_conditions(bench: Bench) -> None:
    bench.store(a_resource().with_spec("model", value=None))
    await bench.reconcile()
    statuses = {each["type"]: each["status"] for each in bench.status()["conditions"]}
    assert statuses == {
        "Ready": "False",
        "Available": "Unknown",
        "Progressing": "Unknown",
        "Degraded": "Unknown",
        "SpecValid": "False",
        "FabricActive": "Unknown",
        "KVTransferVerified": "Unknown",
        "ScalingLimited": "Unknown",
    }


async def test_a_resources_conditions_are_metrics_until_it_is_gone(bench: Bench) -> None:
    ready = {"resource_namespace": "models", "resource_name": "qwen", "type": "Ready", "status": "False"}

    def told(**labels: str) -> float | None:
        return bench.metrics.registry.get_sample_value("tandem_resource_condition", {**ready, **labels})

    bench.store(a_resource())
    await bench.reconcile()
    assert told(reason=bench.condition("Ready")["reason"]) == 1
    bench.store(a_resource().with_spec("model", value=None))
    await bench.reconcile()
    assert told(reason="Invalid") == 1
    bench.api.objects.clear()
    await bench.reconcile()
    assert told(reason="Invalid") is None


async def test_a_spec_that_cannot_be_acted_on_is_reported_and_nothing_is_changed(bench: Bench) -> None:
    bench.store(a_resource().with_overlay(Role.DECODE, {"spec": "not an object"}))
    await bench.reconcile()
    assert "spec.decode.podTemplate" in bench.condition("SpecValid")["message"]
    assert bench.stored("statefulsets") == []


async def test_a_child_that_the_server_refuses_is_reported_and_the_others_are_made(bench: Bench) -> None:
    bench.store(a_resource())
    bench.api.answer("PATCH", "/statefulsets/qwen-decode", failure(422, IMMUTABLE_SET))
    again = await bench.reconcile()
    assert bench.condition("Degraded")["reason"] == "ImmutableField"
    assert bench.stored("statefulsets") == ["qwen-prefill"]
    assert bench.stored("deployments") == ["qwen"]
    assert again is not None
    assert again <= 30


async def test_a_child_that_is_no_longer_wanted_is_deleted(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.store(a_resource().with_spec("frontDoor", value={"enabled": False}).of_generation(2))
    await bench.reconcile()
    assert bench.stored("deployments") == []


async def test_a_server_that_is_busy_puts_the_resource_off(bench: Bench, metrics: Metrics) -> None:
    bench.store(a_resource())
    bench.api.answer("GET", f"/{PLURAL}/qwen", failure(429, headers={"Retry-After": "30"}))
    assert await bench.reconcile() == 30
    labels = {"outcome": "requeued"}
    assert metrics.registry.get_sample_value("tandem_reconcile_duration_seconds_count", labels) == 1


async def test_an_error_of_ours_is_counted_and_raised_for_the_queue_to_repeat(bench: Bench, metrics: Metrics) -> None:
    bench.store(a_resource())

    def broken(observed: Observed, defaults: Any) -> Plan:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await bench.reconciler(plan=broken)(KEY)
    labels = {"error": "ZeroDivisionError"}
    assert metrics.registry.get_sample_value("tandem_reconcile_failures_total", labels) == 1


async def test_a_look_that_takes_too_long_is_cut_off(bench: Bench) -> None:
    bench.store(a_resource())
    hold = asyncio.Event()
    original = bench.api._dispatch

    async def hang(request: Any, target: Any) -> Any:
        if target.plural == "pods":
            await hold.wait()
        return await original(request, target)

    bench.api._dispatch = hang  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await bench.reconciler(timeout=0.2)(KEY)
    hold.set()


@pytest.mark.parametrize(("asked", "least", "most"), [(None, 300, 600), (timedelta(seconds=15), 15, 15)])
async def test_the_next_look_is_when_the_plan_asks_for_it_or_at_the_next_resync(
    bench: Bench, asked: timedelta | None, least: float, most: float
) -> None:
    bench.store(a_resource())

    def report(*args: Any) -> Outcome:
        return replace(outcome(*args), again=asked)

    again = await bench.reconciler(outcome=report)(KEY)
    assert again is not None
    assert least <= again <= most


def _scale(bench: Bench, role: Role, replicas: int) -> None:
    """As an autoscaler does."""
    scaler = bench.api.get(SCALER_PLURAL, f"qwen-{role}") or {}
    bench.api.put(SCALER_PLURAL, {**scaler, "metadata": {**scaler["metadata"]}, "spec": {"replicas": replicas}})


def _replicas(bench: Bench, role: Role) -> int:
    return int((bench.api.get("statefulsets", f"qwen-{role}") or {})["spec"]["replicas"])


async def test_a_set_follows_its_scaler_and_nobody_contradicts_the_autoscaler(bench: Bench) -> None:
    bench.store(a_resource().with_decode(2))
    await bench.reconcile()
    assert bench.stored(SCALER_PLURAL) == ["qwen-prefill"]
    _scale(bench, Role.PREFILL, 3)
    await bench.reconcile()
    assert (_replicas(bench, Role.PREFILL), _replicas(bench, Role.DECODE)) == (3, 2)
    again = bench.reconciler()
    await again(KEY)
    scaler = bench.api.get(SCALER_PLURAL, "qwen-prefill") or {}
    assert scaler["spec"] == {"replicas": 3}
    assert scaler["status"]["selector"] == "tandem.dev/resource=qwen,tandem.dev/role=prefill"
    sent = [body for _, path, body in bench.api.writes if path.endswith(f"{SCALER_PLURAL}/qwen-prefill")]
    assert sent != []
    assert all("spec" not in body for body in sent)


async def test_a_scaler_that_somebody_deleted_comes_back_with_as_many_engines_as_there_are(bench: Bench) -> None:
    bench.store(a_resource().with_decode(2))
    await bench.reconcile()
    _scale(bench, Role.PREFILL, 3)
    await bench.reconcile()
    bench.api.remove(SCALER_PLURAL, "qwen-prefill")
    await bench.reconcile()
    assert (bench.api.get(SCALER_PLURAL, "qwen-prefill") or {})["spec"] == {"replicas": 3}
    assert _replicas(bench, Role.PREFILL) == 3


async def test_a_scaler_goes_when_the_spec_fixes_the_number(bench: Bench) -> None:
    bench.store(a_resource().with_decode(2))
    await bench.reconcile()
    bench.store(a_resource().with_decode(2).with_prefill(4).of_generation(2))
    await bench.reconcile()
    assert bench.stored(SCALER_PLURAL) == []
    assert _replicas(bench, Role.PREFILL) == 4


async def test_a_scaler_that_goes_while_its_status_is_written_is_no_error(bench: Bench) -> None:
    bench.store(a_resource().with_decode(2))
    bench.api.before(
        "PATCH", f"{SCALER_PLURAL}/qwen-prefill/status", lambda: bench.api.remove(SCALER_PLURAL, "qwen-prefill")
    )
    assert await bench.reconcile() is not None
    assert bench.stored(SCALER_PLURAL) == []


def _pairs(choose: Callable[[Rule], bool] = lambda _: True) -> set[tuple[str, str, str]]:
    return {(verb, rule.group, rule.resource) for rule in RULES if choose(rule) for verb in rule.verbs}


async def test_a_resources_life_needs_only_rights_that_the_table_has(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.api.put("nodes", a_node("node-p").build())
    bench.store_pod(a_ready_pod(Role.PREFILL).on_node("node-p"), Role.PREFILL)
    bench.store(a_resource().with_spec("frontDoor", value={"enabled": False}).of_generation(2))
    await bench.reconcile()
    assert {tuple(asked) for asked in bench.api.asked} - _pairs() == set()


def test_all_kinds_that_may_be_planned_can_be_applied() -> None:
    assert {kind.kind for kind in CHILD_KINDS} == KINDS


def test_the_table_of_rights_is_in_order_and_says_why() -> None:
    places = [(rule.group, rule.resource) for rule in RULES]
    assert places == sorted(set(places))
    assert all(list(rule.verbs) == sorted(set(rule.verbs)) for rule in RULES)
    assert all(rule.why for rule in RULES)
    assert not any("*" in (rule.group, rule.resource, *rule.verbs) for rule in RULES)


async def test_what_conversations_have_shown_is_written_to_the_pods_and_told_in_the_same_look(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.run_engines()
    await bench.reconcile()
    (target,) = bench.conversations.targets
    (prefill,) = target.prefills.values()
    shown = Result(Standing.SHOWN, Reason.VERIFIED)
    bench.conversations.held = [report_of(target, {str(prefill.engine): shown}, {})]
    await bench.reconcile()
    assert bench.condition("KVTransferVerified")["status"] == "True"
    assert "shown" in (bench.api.get("pods", "qwen-decode-0") or {})["metadata"]["annotations"][VERIFICATION_ANNOTATION]
    assert bench.conversations.held == []
    assert bench.conversations.targets[0].settled


async def test_what_could_not_be_written_is_kept_for_the_next_look(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.run_engines()
    await bench.reconcile()
    (target,) = bench.conversations.targets
    failed = Result(Standing.FAILED, Reason.WRONG_OUTPUT, "why")
    bench.conversations.held = [report_of(target, {"": failed}, {})]
    bench.api.answer("PATCH", "/pods/qwen-decode-0", *[failure(503)] * 4)
    await bench.reconcile()
    assert len(bench.conversations.held) == 1
    await bench.reconcile()
    assert (bench.conversations.held, bench.condition("KVTransferVerified")["status"]) == ([], "False")


async def test_a_request_for_verification_goes_to_the_engines_and_its_answer_into_the_status(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.run_engines()
    await bench.reconcile()
    asked = a_resource().annotated(VERIFY_ANNOTATION, "now").manifest()
    bench.api.put(PLURAL, asked | {"status": bench.status()})
    await bench.reconcile()
    (target,) = bench.conversations.targets
    assert (target.request, bench.status()["verification"]["state"]) == ("now", "Running")
    (prefill,) = target.prefills.values()
    shown = {str(prefill.engine): Result(Standing.SHOWN, Reason.VERIFIED)}
    bench.conversations.held = [report_of(target, shown, {})]
    await bench.reconcile()
    answer = bench.status()["verification"]
    assert (answer["request"], answer["state"], answer["pairs"], answer["shown"]) == ("now", "Answered", 1, 1)
    assert bench.conversations.targets[0].request == ""
    said = [path for _, path, _ in bench.api.writes if path.endswith(("/status", "/events"))]
    await bench.reconcile()
    again = [path for _, path, _ in bench.api.writes if path.endswith(("/status", "/events"))]
    assert again == said, "it is answered once"


@pytest.mark.parametrize(
    ("asked", "former", "words"),
    [
        ("now", None, "cannot read spec.decode.replicas"),
        ("not one", None, "metadata.annotations[tandem.dev/verify-requested-at]"),
        ("now", {"state": "odd"}, "cannot read"),
        ("now", {"request": "now", "state": "Running", "since": "2026-01-01T00:00:00Z"}, "cannot read"),
    ],
)
async def test_a_request_for_a_resource_that_cannot_be_read_is_refused_once(
    bench: Bench, asked: str, former: dict[str, str] | None, words: str
) -> None:
    wrong = a_resource().with_spec("decode", "replicas", value="many").annotated(VERIFY_ANNOTATION, asked).manifest()
    bench.api.put(PLURAL, wrong | ({"status": {"verification": former}} if former else {}))
    await bench.reconcile()
    answer = bench.status()["verification"]
    assert answer["state"] == "Refused"
    assert words in answer["message"]
    # What was wrong with the status itself is mended by that.
    await bench.reconcile()
    writes = len(bench.api.writes)
    await bench.reconcile()
    assert len(bench.api.writes) == writes


async def test_a_resource_that_is_gone_is_conversed_with_no_more(bench: Bench) -> None:
    bench.store(a_resource())
    await bench.reconcile()
    bench.run_engines()
    await bench.reconcile()
    assert bench.conversations.targets
    bench.api.remove(PLURAL, "qwen")
    await bench.reconcile()
    assert bench.conversations.targets == ()
