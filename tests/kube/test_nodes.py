# SPDX-License-Identifier: Apache-2.0
import pytest

from tandem_operator.kube.client import Client
from tandem_operator.kube.nodes import Nodes
from tests.builders import a_node
from tests.kube.fake_api import FakeApi


@pytest.fixture
def nodes(client: Client) -> Nodes[str]:
    return Nodes(client, lifetime=300, clock=lambda: 0.0)


def reads(api: FakeApi) -> int:
    return sum(asked.resource == "nodes" for asked in api.asked)


async def test_only_the_nodes_that_are_asked_for_are_read_and_missing_ones_left_out(
    api: FakeApi, nodes: Nodes[str]
) -> None:
    for name in ("a", "b", "c"):
        api.put("nodes", a_node(name).build())
    found = await nodes.look("resource", ["a", "b", "vanished"])
    assert found.keys() == {"a", "b"}
    assert reads(api) == 3


async def test_a_node_is_read_again_only_when_it_changed(api: FakeApi, nodes: Nodes[str]) -> None:
    api.put("nodes", a_node("a").in_zone("one").build())
    await nodes.look("resource", ["a"])
    await nodes.look("resource", ["a"])
    assert reads(api) == 1
    api.put("nodes", a_node("a").in_zone("two").build())
    assert nodes.changed("a") == ["resource"]
    found = await nodes.look("resource", ["a"])
    assert found["a"]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "two"


async def test_a_node_that_changes_while_it_is_read_is_read_again(api: FakeApi, nodes: Nodes[str]) -> None:
    api.put("nodes", a_node("a").build())
    api.before("GET", "/nodes/a", lambda: nodes.changed("a"))
    await nodes.look("resource", ["a"])
    await nodes.look("resource", ["a"])
    assert reads(api) == 2


async def test_what_is_known_grows_old(api: FakeApi, client: Client) -> None:
    times = iter((0.0, 299.0, 301.0, 301.0))
    nodes: Nodes[str] = Nodes(client, lifetime=300, clock=lambda: next(times))
    api.put("nodes", a_node("a").build())
    for _ in range(3):
        await nodes.look("resource", ["a"])
    assert reads(api) == 2


async def test_a_change_concerns_the_resources_that_look_at_the_node(api: FakeApi, nodes: Nodes[str]) -> None:
    for name in ("a", "b"):
        api.put("nodes", a_node(name).build())
    await nodes.look("one", ["a"])
    await nodes.look("two", ["a", "b"])
    assert nodes.changed("a") == ["one", "two"]
    await nodes.look("two", ["b"])
    assert nodes.changed("a") == ["one"]
    nodes.forget("one")
    assert nodes.changed("a") == []
    assert nodes._known.keys() == {"b"}


async def test_nodes_with_labels_are_listed_once_in_half_a_minute(api: FakeApi, client: Client) -> None:
    time = [0.0]
    nodes: Nodes[str] = Nodes(client, clock=lambda: time[0])
    big = a_node("a").with_label("type", "big").build()
    big["status"]["images"] = [{"names": ["large"]}]
    api.put("nodes", big)
    api.put("nodes", a_node("b").build())
    for time[0] in (0.0, 29.0):
        found = await nodes.labelled(["type=big", "type=big"])
        assert [node["metadata"]["name"] for node in found["type=big"]] == ["a"]
        assert "images" not in found["type=big"][0]["status"]
        assert reads(api) == 1
    api.put("nodes", a_node("c").with_label("type", "big").build())
    time[0] = 30.0
    assert [node["metadata"]["name"] for node in (await nodes.labelled(["type=big"]))["type=big"]] == ["a", "c"]
    assert await nodes.labelled([]) == {}
    assert reads(api) == 2
