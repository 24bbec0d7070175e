# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from tandem_connector.contract.types import Role
from tandem_operator.kube.client import Client
from tandem_operator.kube.kinds import POD
from tandem_operator.kubectl.draining import drained, prepared
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.views.drain import Drain, drain_of
from tandem_operator.metrics import Metrics
from tests.builders import a_ready_pod
from tests.builders.pods import PodBuilder
from tests.kube.fake_api import FakeApi
from tests.kube.serving import client_of, new_api, serve
from tests.kubectl.builders import seen, two_of_each


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    api = new_api()
    async with serve(api):
        yield api


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with client_of(api, Metrics(CollectorRegistry())) as client:
        yield client


def a_drain() -> Drain:
    return Drain(namespace="models", pod="qwen-decode-0", role=Role.DECODE, heir=None, left=1, problem=None)


def test_who_gets_what_it_holds_and_who_is_left_is_told() -> None:
    told = two_of_each()
    routable = tuple(PodBuilder(dict(pod)).routable().build() for pod in told.observed.pods)
    drain = drain_of(replace(told, observed=replace(told.observed, pods=routable)), "qwen-decode-0")
    assert drain is not None
    assert (drain.heir, drain.left, drain.problem) == ("qwen-decode-1", 1, None)


def test_the_last_engine_of_a_role_is_left_alone() -> None:
    pods = [a_ready_pod(Role.DECODE).routable(), a_ready_pod(Role.PREFILL, 0).routable()]
    drain = drain_of(seen(pods=pods), "qwen-decode-0")
    assert drain is not None
    assert "no other decode engine takes turns" in (drain.problem or "")


def test_an_engine_that_drains_already_is_left_alone() -> None:
    pods = [a_ready_pod(Role.DECODE, 0).terminating(), a_ready_pod(Role.DECODE, 1).routable()]
    drain = drain_of(seen(pods=pods), "qwen-decode-0")
    assert drain is not None
    assert drain.problem == "it is draining already"


def test_a_pod_that_is_no_engine_of_the_resource_has_no_drain() -> None:
    assert drain_of(seen(), "stranger") is None


async def test_a_pod_that_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(Failed, match="no pod qwen-decode-0 in namespace models") as failed:
        await prepared(client, "models", "qwen-decode-0")
    assert failed.value.exit is Exit.NOT_FOUND


async def test_another_pod_than_an_engine_is_refused(api: FakeApi, client: Client) -> None:
    stranger = a_ready_pod().build()
    stranger["metadata"]["labels"] = {}
    api.put(POD.plural, stranger)
    with pytest.raises(Failed, match="is no engine") as failed:
        await prepared(client, "models", "qwen-decode-0")
    assert failed.value.exit is Exit.USAGE
    assert api.writes == []


async def test_an_eviction_is_waited_for_until_the_pod_is_gone(api: FakeApi, client: Client) -> None:
    stored = api.put(POD.plural, a_ready_pod().build())
    done = await drained(client, a_drain(), stored["metadata"]["uid"], patience=60)
    assert (done.done, done.words) == (True, "gone")
    assert [path.rpartition("/")[2] for _, path, _ in api.writes] == ["eviction"]


async def test_another_pod_of_that_name_is_not_evicted(api: FakeApi, client: Client) -> None:
    api.put(POD.plural, a_ready_pod().build())
    await drained(client, a_drain(), "another-uid", patience=None)
    assert api.get(POD.plural, "qwen-decode-0") is not None


async def test_a_budget_that_does_not_allow_it_is_said(api: FakeApi, client: Client) -> None:
    stored = api.put(POD.plural, a_ready_pod().build())
    api.answer("POST", "/eviction", (429, {}, "{}"))
    done = await drained(client, a_drain(), stored["metadata"]["uid"], patience=60)
    assert not done.done
    assert "disruption budget" in done.words
