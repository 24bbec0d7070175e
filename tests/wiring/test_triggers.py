# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tandem_operator.api.names import PLURAL, RESOURCE_LABEL
from tandem_operator.kube.client import Client
from tandem_operator.kube.news import News
from tandem_operator.kube.nodes import Nodes
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.kube.queue import WorkQueue
from tandem_operator.kube.watches import Stream, Watches
from tandem_operator.metrics import Metrics
from tandem_operator.wiring.triggers import Triggers
from tests.builders import a_node
from tests.kube.fake_api import FakeApi

QWEN = ResourceKey("models", "qwen")
LLAMA = ResourceKey("models", "llama")
PODS = Stream("pods", None)


class Queue(WorkQueue[ResourceKey]):
    """Notes what it is asked."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.added: list[ResourceKey] = []
        self.planned: dict[ResourceKey, float] = {}
        self.questions: dict[ResourceKey, Callable[[], bool]] = {}

    def add(self, key: ResourceKey, still: Callable[[], bool] | None = None) -> None:
        self.added.append(key)

    def add_after(self, key: ResourceKey, delay: float) -> None:
        self.planned[key] = delay

    def add_if_still(self, key: ResourceKey, delay: float, still: Callable[[], bool]) -> None:
        self.questions.setdefault(key, still)

    def taken(self) -> list[ResourceKey]:
        added, self.added = self.added, []
        return added


@pytest.fixture
async def queue(metrics: Metrics) -> Queue:
    return Queue(metrics)


@pytest.fixture
async def nodes(client: Client) -> Nodes[ResourceKey]:
    return Nodes(client)


@pytest.fixture
def news() -> News[ResourceKey]:
    return News()


@pytest.fixture
async def triggers(queue: Queue, news: News[ResourceKey], nodes: Nodes[ResourceKey], metrics: Metrics) -> Triggers:
    expected = frozenset(Stream(plural, None) for plural in (PLURAL, "pods", "nodes"))
    return Triggers(queue, news, nodes, Watches(expected, request_limit=1, echo_limit=1), metrics)


def event(change: str | None, name: str = "qwen", uid: str | None = None, **labels: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "models",
        "uid": uid or f"uid-of-{name}",
        "resourceVersion": "7",
        "labels": labels,
    }
    return {"type": change, "object": {"metadata": metadata}}


def child(change: str | None, name: str, resource: str = "qwen") -> dict[str, Any]:
    return event(change, name, **{RESOURCE_LABEL: resource})


@pytest.mark.parametrize("change", [None, "ADDED", "MODIFIED", "DELETED"])
def test_whatever_happens_to_a_resource_or_its_child_the_resource_is_looked_at(
    triggers: Triggers, queue: Queue, change: str | None
) -> None:
    triggers.resource(event(change))
    triggers.child("pods", child(change, "llama-decode-0", "llama"))
    assert queue.taken() == [QWEN, LLAMA]


def test_what_we_wrote_or_have_read_already_is_no_reason_to_look(
    triggers: Triggers, queue: Queue, news: News[ResourceKey]
) -> None:
    news.wrote(event("MODIFIED", "qwen-decode-0")["object"]["metadata"])
    triggers.child("pods", child("MODIFIED", "qwen-decode-0"))
    news.read(QWEN, "pods", "7")
    triggers.child("pods", child("MODIFIED", "qwen-decode-1"))
    assert queue.taken() == []
    triggers.child("networkpolicies", child("MODIFIED", "qwen-decode"))
    assert queue.taken() == [QWEN]


@pytest.mark.parametrize("plural", ["statefulsets", "deployments", "poddisruptionbudgets"])
def test_a_count_of_pods_waits_for_what_is_said_of_the_pods_themselves(
    triggers: Triggers, queue: Queue, news: News[ResourceKey], plural: str
) -> None:
    triggers.child(plural, child("MODIFIED", "qwen-decode"))
    assert queue.taken() == []
    assert queue.questions[QWEN]()
    triggers.child("pods", child("MODIFIED", "qwen-decode-0"))
    assert queue.taken() == [QWEN]
    news.read(QWEN, "pods", "7")
    news.read(QWEN, plural, "7")
    assert not queue.questions[QWEN](), "the look at the pod has read it too"


@pytest.mark.parametrize("change", ["ADDED", "DELETED"])
def test_sets_that_come_or_go_are_looked_at_at_once(triggers: Triggers, queue: Queue, change: str) -> None:
    triggers.child("statefulsets", child(change, "qwen-decode"))
    assert queue.taken() == [QWEN]


def test_after_a_watch_started_over_all_known_resources_are_looked_at_within_some_seconds(
    triggers: Triggers, queue: Queue, metrics: Metrics
) -> None:
    triggers.listed(PODS)
    triggers.resource(event(None, "qwen"))
    triggers.resource(event(None, "llama"))
    assert queue.planned == {}
    triggers.listed(PODS)
    assert queue.planned.keys() == {QWEN, LLAMA}
    assert all(0 <= delay <= 10 for delay in queue.planned.values())
    assert metrics.registry.get_sample_value("tandem_watch_relists_total", {"resource": "pods"}) == 1


async def test_after_the_watch_of_nodes_started_over_a_node_that_has_gone_is_not_believed_in(
    api: FakeApi, triggers: Triggers, nodes: Nodes[ResourceKey]
) -> None:
    stream = Stream("nodes", None)
    api.put("nodes", a_node("a").build())
    triggers.listed(stream)
    assert list(await nodes.look(QWEN, ["a"])) == ["a"]
    api.remove("nodes", "a")
    assert list(await nodes.look(QWEN, ["a"])) == ["a"], "no watch has told of it"
    triggers.listed(stream)
    assert list(await nodes.look(QWEN, ["a"])) == []


def test_a_resource_that_is_gone_is_no_longer_looked_at(triggers: Triggers, queue: Queue, metrics: Metrics) -> None:
    triggers.resource(event("ADDED", "qwen"))
    triggers.resource(event("ADDED", "llama"))
    triggers.forget(QWEN)
    queue.taken()
    triggers.all()
    assert queue.taken() == [LLAMA]
    assert metrics.registry.get_sample_value("tandem_resources") == 1


def node_event(change: str | None, node: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"uid": f"uid-of-{node['metadata']['name']}", "resourceVersion": "7", **node["metadata"]}
    return {"type": change, "object": {**node, "metadata": metadata}}


async def test_a_node_that_changes_its_labels_concerns_the_resources_that_look_at_it(
    api: FakeApi, triggers: Triggers, queue: Queue, nodes: Nodes[ResourceKey]
) -> None:
    node = a_node("a")
    api.put("nodes", node.build())
    await nodes.look(QWEN, ["a"])
    triggers.node(node_event(None, node.build()))
    assert queue.taken() == [], "it is what was read"
    triggers.node(node_event("MODIFIED", node.in_zone("zone-1").build()))
    assert queue.taken() == [QWEN]
    triggers.node(node_event("DELETED", node.build()))
    assert queue.taken() == [QWEN]


async def test_a_kubelets_regular_report_concerns_nobody(
    api: FakeApi, triggers: Triggers, queue: Queue, nodes: Nodes[ResourceKey]
) -> None:
    api.put("nodes", a_node("a").build())
    await nodes.look(QWEN, ["a"])
    triggers.node(node_event(None, a_node("a").build()))
    triggers.node(node_event("MODIFIED", a_node("a").reported_at("2026-01-01T00:05:00Z").build()))
    assert queue.taken() == []


async def test_a_node_that_is_not_ready_any_more_concerns_the_resources_that_look_at_it(
    api: FakeApi, triggers: Triggers, queue: Queue, nodes: Nodes[ResourceKey]
) -> None:
    """At once, and not when the node controller comes around to its taints."""
    api.put("nodes", a_node("a").build())
    await nodes.look(QWEN, ["a"])
    triggers.node(node_event(None, a_node("a").build()))
    for seen in (a_node("a").not_ready(), a_node("a")):
        triggers.node(node_event("MODIFIED", seen.build()))
        assert queue.taken() == [QWEN]
