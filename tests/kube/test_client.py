# SPDX-License-Identifier: Apache-2.0
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.aio.client import Configuration
from prometheus_client import CollectorRegistry

from tandem_operator.kube.client import APPLY_PATCH, Client, as_yaml
from tandem_operator.kube.errors import Conflict, Gone, ImmutableField, KubeError, Refused, Requeue
from tandem_operator.kube.kinds import DEPLOYMENT, LEASE, NODE, POD, RESOURCE, STATEFUL_SET
from tandem_operator.kube.tenure import Tenure
from tandem_operator.metrics import Metrics
from tests.kube.fake_api import Answer, FakeApi
from tests.kube.serving import configuration_of, new_api


def pod(name: str = "a", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "models", **metadata}}


def failure(status: int, message: str = "no", headers: Mapping[str, str] | None = None) -> Answer:
    return status, headers or {}, json.dumps({"kind": "Status", "message": message})


async def test_an_object_is_read_as_json_and_none_when_it_is_not_there(api: FakeApi, client: Client) -> None:
    api.put("pods", pod(labels={"a": "b"}))
    found = await client.get(POD, "models", "a")
    assert found is not None
    assert found["metadata"]["labels"] == {"a": "b"}
    assert await client.get(POD, "models", "b") is None
    assert await client.get(NODE, None, "a") is None


async def test_a_list_has_the_objects_with_the_labels_of_one_namespace_and_says_what_they_are(
    api: FakeApi, client: Client
) -> None:
    api.put("pods", {"metadata": pod("a", labels={"role": "decode"})["metadata"], "apiVersion": "v1"})
    api.put("pods", pod("b", labels={"role": "other"}))
    api.put("pods", pod("c") | {"metadata": {"name": "c", "namespace": "elsewhere", "labels": {"role": "decode"}}})
    (found,) = (await client.list(POD, "models", "role in (prefill,decode)")).items
    assert (found["apiVersion"], found["kind"], found["metadata"]["name"]) == ("v1", "Pod", "a")


async def test_who_does_not_lead_any_more_reads_and_renews_and_writes_nothing(api: FakeApi, metrics: Metrics) -> None:
    now = 0.0
    tenure = Tenure(lambda: now)

    async def be_stopped(_: float) -> None:
        nonlocal now
        now = 60.0

    tenure.prolong(10.0)
    async with Client(configuration_of(api), metrics, tenure=tenure, sleep=be_stopped) as client:
        await client.create(POD, "models", pod())
        api.answer("PATCH", "/pods/a", failure(503))
        with pytest.raises(Requeue, match="does not lead any more"):
            await client.apply(POD, pod(labels={"a": "b"}))
        with pytest.raises(Requeue, match="does not lead any more"):
            await client.delete(POD, "models", "a", "uid")
        assert await client.get(POD, "models", "a") is not None
        lease = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": {"name": "l", "namespace": "models"}}
        assert await client.create(LEASE, "models", lease)
        tenure.prolong(70.0)
        assert await client.apply(POD, pod(labels={"a": "b"}))
        tenure.end()
        with pytest.raises(Requeue):
            await client.apply(POD, pod(labels={"a": "c"}))


async def test_nothing_is_asked_for_in_compressed_form() -> None:
    encodings: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        encodings.append(request.headers["Accept-Encoding"])
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with (
        TestServer(application) as server,
        Client(Configuration(host=str(server.make_url(""))), Metrics(CollectorRegistry())) as client,
    ):
        await client.list(POD, "models", "x")
    assert encodings == ["identity"]


async def test_a_list_in_pages_is_read_to_its_end(api: FakeApi, client: Client) -> None:
    pages = [
        {"metadata": {"continue": "a/b+c==", "resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}]},
        {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "b"}}]},
    ]
    api.answer("GET", "/pods", *((200, {}, json.dumps(page)) for page in pages))
    listed = await client.list(POD, "models", "x")
    assert [each["metadata"]["name"] for each in listed.items] == ["a", "b"]
    assert listed.version == "7"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_request_is_repeated_while_the_server_has_trouble(api: FakeApi, client: Client, status: int) -> None:
    api.put("pods", pod())
    api.answer("GET", "/pods/a", failure(status), (status, {"Content-Type": "text/html"}, "<html>busy</html>"))
    assert await client.get(POD, "models", "a") is not None


async def test_a_request_that_keeps_failing_becomes_a_requeue_with_the_servers_words(
    api: FakeApi, client: Client, metrics: Metrics
) -> None:
    api.answer("GET", "/pods/a", *[failure(503, "etcd is away")] * 4)
    with pytest.raises(Requeue, match="etcd is away"):
        await client.get(POD, "models", "a")
    labels = {"method": "GET", "resource": "pods", "status": "503"}
    assert metrics.registry.get_sample_value("tandem_api_errors_total", labels) == 4


async def test_the_time_that_the_server_asks_for_is_waited(api: FakeApi, metrics: Metrics) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    api.put("pods", pod())
    api.answer("GET", "/pods/a", failure(429, headers={"Retry-After": "7"}), failure(500))
    async with Client(configuration_of(api), metrics, sleep=note) as client:
        await client.get(POD, "models", "a")
    assert 7 <= waits[0] <= 9.1
    assert 0.8 <= waits[1] <= 1.04, "the second step of the own back-off"


async def test_a_worker_does_not_wait_for_minutes_but_requeues(api: FakeApi, client: Client) -> None:
    api.answer("GET", "/pods/a", failure(429, headers={"Retry-After": "120"}))
    with pytest.raises(Requeue) as caught:
        await client.get(POD, "models", "a")
    assert caught.value.after == timedelta(seconds=120)


async def test_a_server_that_is_not_there_is_a_requeue(metrics: Metrics) -> None:
    async def do_not_wait(_: float) -> None:
        return

    async with Client(Configuration(host="http://127.0.0.1:9"), metrics, sleep=do_not_wait) as client:
        with pytest.raises(Requeue, match="does not answer"):
            await client.get(POD, "models", "a")


async def test_an_impatient_request_is_made_once(api: FakeApi, client: Client) -> None:
    api.answer("GET", "/pods/a", failure(500), failure(500))
    with pytest.raises(Requeue):
        await client.get(POD, "models", "a", patient=False)
    with pytest.raises(Requeue):
        await client.get(POD, "models", "a", patient=False)
    assert await client.get(POD, "models", "a", patient=False) is None


IMMUTABLE_SET = (
    'StatefulSet.apps "a" is invalid: spec: Forbidden: updates to statefulset spec for fields other than '
    "'replicas', 'ordinals', 'template', ... are forbidden"
)
IMMUTABLE_SELECTOR = 'Deployment.apps "a" is invalid: spec.selector: Invalid value: ...: field is immutable'


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (404, "not found", Gone),
        (410, "expired", Gone),
        (409, "uid mismatch", Conflict),
        (400, "unknown field", Refused),
        (403, "exceeded quota", Refused),
        (413, "too large", Refused),
        (422, "spec.replicas: Invalid value: -1", Refused),
        (422, IMMUTABLE_SET, ImmutableField),
        (422, IMMUTABLE_SELECTOR, ImmutableField),
        (401, "Unauthorized", Requeue),
    ],
)
async def test_an_answer_becomes_the_error_that_says_what_to_do(
    api: FakeApi, client: Client, status: int, message: str, expected: type[KubeError]
) -> None:
    api.answer("PATCH", "/pods/a", failure(status, message))
    with pytest.raises(KubeError) as caught:
        await client.apply(POD, pod())
    assert type(caught.value) is expected
    assert message in str(caught.value)


async def test_apply_is_server_side_by_the_manager_tandem_with_force(api: FakeApi, client: Client) -> None:
    seen: list[Any] = []
    api.answer("PATCH", "/pods/a", failure(500))
    original = api._dispatch

    async def note(request: Any, target: Any) -> Any:
        seen.append((dict(request.query), request.headers["Content-Type"]))
        return await original(request, target)

    api._dispatch = note  # type: ignore[method-assign]
    await client.apply(POD, pod())
    assert seen == [({"fieldManager": "tandem", "force": "true"}, APPLY_PATCH)]


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_applied_is_the_same_in_yaml_and_in_json(text: str) -> None:
    written = as_yaml({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert not re.search(r"(?<!\\)(\\\\)*\\ud[89ab]", written), "YAML knows no pairs of escapes"
    assert not re.search("[\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]", written)


async def test_an_apply_carries_characters_beyond_16_bits_as_they_are() -> None:
    bodies: list[tuple[str, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append((request.headers["Content-Type"], await request.read()))
        return web.json_response({})

    application = web.Application()
    application.router.add_patch("/{path:.*}", answer)
    async with (
        TestServer(application) as server,
        Client(Configuration(host=str(server.make_url(""))), Metrics(CollectorRegistry())) as client,
    ):
        await client.apply(POD, pod(annotations={"a": "\N{HUGGING FACE}\x85"}))

    [(content_type, body)] = bodies
    assert content_type.startswith("application/apply-patch+yaml")
    assert "\N{HUGGING FACE}\\u0085".encode() in body


async def test_apply_with_a_uid_makes_no_object_and_changes_no_other(api: FakeApi, client: Client) -> None:
    with pytest.raises(Conflict):
        await client.apply(POD, pod(uid="former"))
    api.put("pods", pod())
    with pytest.raises(Conflict):
        await client.apply(POD, pod(uid="former", labels={"a": "b"}))
    assert "labels" not in (api.get("pods", "a") or {})["metadata"]


async def test_annotating_changes_nothing_else_makes_nothing_and_touches_no_other_object_of_that_name(
    api: FakeApi, client: Client
) -> None:
    stored = api.put("pods", pod(labels={"a": "b"}, annotations={"old": "1"}))
    uid = stored["metadata"]["uid"]
    await client.annotate(POD, "models", "a", uid, {"new": "2"}, manager="somebody")
    found = api.get("pods", "a") or {}
    assert found["metadata"]["annotations"] == {"old": "1", "new": "2"}
    assert found["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(Conflict):
        await client.annotate(POD, "models", "a", "another", {"new": "3"}, manager="somebody")
    with pytest.raises(Gone):
        await client.annotate(POD, "models", "b", uid, {"new": "3"}, manager="somebody")
    assert len(api.objects) == 1


async def test_delete_removes_only_the_object_that_was_meant(api: FakeApi, client: Client) -> None:
    stored = api.put("pods", pod())
    await client.delete(POD, "models", "a", "another-uid")
    assert api.get("pods", "a") is not None
    await client.delete(POD, "models", "a", stored["metadata"]["uid"])
    assert api.get("pods", "a") is None
    await client.delete(POD, "models", "a", stored["metadata"]["uid"])


async def test_whether_the_crd_is_installed_is_known_without_rights_to_crds(api: FakeApi, metrics: Metrics) -> None:
    from tests.kube.serving import client_of, serve

    bare = new_api(without=(RESOURCE,))
    async with serve(bare), client_of(bare, metrics) as client:
        assert not await client.is_served(RESOURCE)
    async with client_of(api, metrics) as client:
        assert await client.is_served(RESOURCE)


def test_paths_are_those_of_the_api() -> None:
    assert POD.path("models") == "/api/v1/namespaces/models/pods"
    assert NODE.path(None, "n") == "/api/v1/nodes/n"
    assert STATEFUL_SET.path(None) == "/apis/apps/v1/statefulsets"
    assert DEPLOYMENT.path("models", "a") == "/apis/apps/v1/namespaces/models/deployments/a"
    assert RESOURCE.path("models", "a", "status").endswith("/namespaces/models/disaggregatedinferences/a/status")
