# SPDX-License-Identifier: Apache-2.0
"""The page's server, and its reader against an API server in memory."""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from tandem_operator.kube.access import Access
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Refused
from tandem_operator.kube.kinds import RESOURCE
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.reading import Whereabouts, connected
from tandem_operator.kubectl.ui.flow_reader import FlowReader
from tandem_operator.kubectl.ui.server import page, serving
from tandem_operator.kubectl.views.flows import FlowsView, flows
from tandem_operator.metrics import Metrics
from tests.builders import a_pod, a_ready_pod
from tests.kube.fake_api import FakeApi
from tests.kube.serving import client_of, configuration_of, new_api, serve
from tests.kubectl.builders import READY, metrics_text, put_engine, two_of_each, with_conditions

PROXY = "/api/v1/namespaces/models/pods/qwen-decode-0:8000/proxy/metrics"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    api = new_api()
    api.put(RESOURCE.plural, with_conditions(READY).manifest())
    async with serve(api):
        yield api


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with client_of(api, Metrics(CollectorRegistry())) as client:
        yield client


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def a_view() -> FlowsView:
    return flows(two_of_each(), {}, {})


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serving(a_view, 0) as url:
        yield url


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_engines_are_read_through_the_api_server_and_rates_come_with_the_second_look(
    api: FakeApi, client: Client
) -> None:
    clock = Clock()
    put_engine(api, a_ready_pod())
    first = metrics_text(received={"forward": 1000})
    api.answer("GET", PROXY, (200, {}, first), (200, {}, metrics_text(received={"forward": 5000})))
    reader = FlowReader(client, "models", "qwen", clock=clock)
    assert [each.rates for each in (await reader.current()).engines] == [None]
    clock.now += 2
    (engine,) = (await reader.current()).engines
    assert engine.rates is not None
    assert engine.rates.received == {"forward": 2000}
    assert api.writes == []


async def test_two_windows_ask_no_more_of_the_cluster_than_one(api: FakeApi, client: Client) -> None:
    clock = Clock()
    reader = FlowReader(client, "models", "qwen", clock=clock)
    await reader.current()
    asked = len(api.reads)
    await reader.current()
    assert len(api.reads) == asked
    clock.now += 2
    await reader.current()
    assert len(api.reads) == 2 * asked


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (403, json.dumps({"message": 'cannot get resource "pods/proxy"'}), 'cannot get resource "pods/proxy"'),
        (503, json.dumps({"message": "error trying to reach service: connection refused"}), "connection refused"),
        (200, "<html></html>", "tells nothing of an exchange"),
    ],
)
async def test_an_engine_that_does_not_answer_is_drawn_with_the_reason(
    api: FakeApi, client: Client, status: int, text: str, why: str
) -> None:
    put_engine(api, a_ready_pod())
    api.answer("GET", PROXY, (status, {}, text))
    (engine,) = (await FlowReader(client, "models", "qwen").current()).engines
    assert why in (engine.silent or "")


async def test_an_engine_that_is_frozen_does_not_keep_the_page_waiting(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> str:
        await asyncio.Event().wait()
        return ""

    put_engine(api, a_ready_pod())
    monkeypatch.setattr(client, "get_of_pod", never)
    (engine,) = (await FlowReader(client, "models", "qwen", patience=0.01).current()).engines
    assert engine.silent == "it didn't answer within 0.01 s"


async def test_a_pod_whose_process_does_not_run_is_not_asked(api: FakeApi, client: Client) -> None:
    put_engine(api, a_pod())
    (engine,) = (await FlowReader(client, "models", "qwen").current()).engines
    assert "doesn't run yet" in (engine.silent or "")
    assert not [path for path in api.reads if "proxy" in path]


async def test_a_resource_that_is_gone_is_said_to_be(api: FakeApi, client: Client) -> None:
    with pytest.raises(Failed, match="no DisaggregatedInference other") as failed:
        await FlowReader(client, "models", "other").current()
    assert failed.value.exit is Exit.NOT_FOUND


async def test_nothing_is_looked_at_unless_a_page_asks(browser: aiohttp.ClientSession) -> None:
    looks = 0

    async def counted() -> FlowsView:
        nonlocal looks
        looks += 1
        return await a_view()

    async with serving(counted, 0) as url:
        async with browser.get(url) as answer:
            assert answer.status == 200
        assert looks == 0
        async with browser.get(f"{url}state"):
            assert looks == 1


async def test_credentials_are_renewed_for_as_long_as_a_command_runs(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []

    async def keep_fresh() -> None:
        events.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            events.append("ended")

    async def access(*_: object) -> Access:
        return Access(configuration_of(api), keep_fresh)

    monkeypatch.setattr("tandem_operator.kubectl.reading.find_access", access)
    async with connected(Whereabouts()) as client:
        await client.is_served(RESOURCE)
        assert events == ["began"]
    await asyncio.sleep(0)
    assert events == ["began", "ended"]


async def test_the_page_is_on_loopback_only_and_its_state_is_the_view(url: str, browser: aiohttp.ClientSession) -> None:
    assert url.startswith("http://127.0.0.1:")
    async with browser.get(f"{url}state") as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        state = await answer.json()
    assert FlowsView.model_validate(state) == await a_view()


@pytest.mark.parametrize("path", ["", "state", "nowhere"])
async def test_every_answer_lets_in_nothing_but_the_pages_own_script_and_style(
    url: str, browser: aiohttp.ClientSession, path: str
) -> None:
    async with browser.get(f"{url}{path}") as answer:
        headers = answer.headers
    policy = dict(each.split(" ", 1) for each in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    (script,) = re.findall(r"<script>(.*?)</script>", page(), re.DOTALL)
    assert policy["script-src"] == f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", ""]
)
async def test_a_name_of_elsewhere_that_leads_here_gets_nothing(
    url: str, browser: aiohttp.ClientSession, host: str
) -> None:
    for path in ("", "state"):
        async with browser.get(f"{url}{path}", headers={"Host": host}) as answer:
            assert answer.status == 403
            assert "qwen" not in await answer.text()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:65535"])
async def test_a_name_of_this_machine_is_served_at_any_port(
    url: str, browser: aiohttp.ClientSession, host: str
) -> None:
    async with browser.get(url, headers={"Host": host}) as answer:
        assert answer.status == 200


async def test_nothing_can_be_done_through_it(url: str, browser: aiohttp.ClientSession) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        async with browser.request(method, f"{url}state") as answer:
            assert answer.status == 405


async def test_a_look_that_fails_is_told_and_the_page_stays(browser: aiohttp.ClientSession) -> None:
    async def refused() -> FlowsView:
        raise Refused("GET /api/v1/pods: <b>forbidden</b>")

    async with serving(refused, 0) as url:
        async with browser.get(f"{url}state") as answer:
            assert (answer.status, answer.content_type) == (502, "application/json")
            assert "forbidden" in (await answer.json())["error"]
        async with browser.get(url) as answer:
            assert answer.status == 200


async def test_a_port_that_is_taken_is_a_usage_error(url: str) -> None:
    taken = int(url.rstrip("/").rpartition(":")[2])
    with pytest.raises(Failed, match=f"port {taken} can't be had") as failed:
        async with serving(a_view, taken):
            pass
    assert failed.value.exit is Exit.USAGE


def test_the_page_fetches_nothing_from_elsewhere_and_makes_no_html_of_what_it_is_told() -> None:
    html = page()
    assert set(re.findall(r"https?://[^\"']+", html)) == {"http://www.w3.org/2000/svg"}, "the name of a namespace"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\son\w+=", html)
