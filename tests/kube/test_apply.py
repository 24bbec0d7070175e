# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tandem_operator.api.names import KIND, RESOURCE_LABEL
from tandem_operator.api.resource import Metadata
from tandem_operator.kube.apply import Applied, Applier
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Conflict, Requeue
from tandem_operator.kube.news import News
from tandem_operator.kube.watches import Stream, Watches
from tandem_operator.metrics import Metrics
from tandem_operator.plan.types import EventType, Eviction, ObjectKey, PodPatch
from tests.kube.fake_api import FakeApi
from tests.kube.test_client import IMMUTABLE_SET, failure, pod

OWNER = Metadata(name="qwen", namespace="models", uid="owner-uid")
SERVICE = ObjectKey("v1", "Service", "qwen")
SET = ObjectKey("apps/v1", "StatefulSet", "qwen-decode")
SCALER = ObjectKey("tandem.dev/v1alpha1", "DisaggregatedInferenceScaler", "qwen-prefill")


def child(key: ObjectKey = SERVICE, uid: str = OWNER.uid, **content: Any) -> dict[str, Any]:
    owner = {"apiVersion": "tandem.dev/v1alpha1", "kind": KIND, "name": OWNER.name, "uid": uid, "controller": True}
    metadata = {"name": key.name, "namespace": OWNER.namespace, "labels": {RESOURCE_LABEL: OWNER.name}}
    return {
        "apiVersion": key.api_version,
        "kind": key.kind,
        "metadata": {**metadata, "ownerReferences": [owner]},
        **(content or {"spec": {"ports": [8000]}}),
    }


@pytest.fixture
def watches() -> Watches:
    expected = frozenset({Stream("pods", None), Stream("statefulsets", None)})
    return Watches(expected, request_limit=100, echo_limit=10, clock=lambda: 0.0)


@pytest.fixture
def applier(client: Client, metrics: Metrics, watches: Watches) -> Applier:
    return Applier(client, metrics, watches, News(), reporter="replica-1")


def live(api: FakeApi) -> dict[ObjectKey, Mapping[str, Any]]:
    """As a live read of all children gives them."""
    return {
        ObjectKey(key.api_version, item["kind"], key.name): item
        for key, item in api.objects.items()
        if item["metadata"].get("labels", {}).get(RESOURCE_LABEL) == OWNER.name and key.plural != "pods"
    }


async def apply(applier: Applier, api: FakeApi, *objects: Mapping[str, Any]) -> Applied:
    return await applier.children(OWNER, objects, live(api))


def patches(api: FakeApi) -> list[str]:
    return [path.rpartition("/")[2] for method, path, _ in api.writes if method == "PATCH"]


async def test_children_are_applied_in_the_plans_order_and_come_back_as_stored(api: FakeApi, applier: Applier) -> None:
    applied = await apply(applier, api, child(), child(SET))
    assert patches(api) == ["qwen", "qwen-decode"]
    assert applied.live[SET]["metadata"]["uid"] == (api.get("statefulsets", "qwen-decode") or {})["metadata"]["uid"]
    assert applied.refusals == ()


async def test_an_unchanged_child_is_not_sent_again(api: FakeApi, applier: Applier, metrics: Metrics) -> None:
    await apply(applier, api, child())
    again = await apply(applier, api, child())
    assert patches(api) == ["qwen"]
    assert again.live[SERVICE]["spec"] == {"ports": [8000]}
    assert metrics.registry.get_sample_value("tandem_applies_total", {"kind": "Service", "result": "skipped"}) == 1


async def apply_scaler(applier: Applier, api: FakeApi) -> Applied:
    wanted = child(SCALER)
    del wanted["spec"]
    return await applier.children(OWNER, [wanted], live(api), [child(SCALER, spec={"replicas": 2})])


async def test_a_child_with_a_field_for_others_is_made_with_it_and_applied_without(
    api: FakeApi, applier: Applier
) -> None:
    applied = await apply_scaler(applier, api)
    assert applied.live[SCALER]["spec"] == {"replicas": 2}
    stored = api.get("disaggregatedinferencescalers", "qwen-prefill") or {}
    api.put("disaggregatedinferencescalers", {**stored, "metadata": {**stored["metadata"]}, "spec": {"replicas": 7}})
    again = await apply_scaler(applier, api)
    assert again.live[SCALER]["spec"] == {"replicas": 7}
    assert [method for method, _, _ in api.writes] == ["POST", "PATCH", "PATCH"]


async def test_a_child_that_somebody_makes_at_the_same_time_is_looked_at_again(api: FakeApi, applier: Applier) -> None:
    api.answer("POST", "/disaggregatedinferencescalers", failure(409, "already exists"))
    with pytest.raises(Requeue, match="already exists"):
        await apply_scaler(applier, api)


async def test_a_new_child_that_the_server_refuses_is_a_refusal(api: FakeApi, applier: Applier) -> None:
    api.answer("POST", "/disaggregatedinferencescalers", failure(403, "exceeded quota"))
    applied = await apply_scaler(applier, api)
    assert [(each.key, "exceeded quota" in each.message) for each in applied.refusals] == [(SCALER, True)]
    assert patches(api) == []


async def test_a_child_is_sent_when_the_plan_wants_something_else(api: FakeApi, applier: Applier) -> None:
    await apply(applier, api, child())
    await apply(applier, api, child(spec={"ports": [9000]}))
    assert (api.get("services", "qwen") or {})["spec"] == {"ports": [9000]}


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"ports": [1]}},
        {"metadata": {"labels": {RESOURCE_LABEL: OWNER.name, "stray": "label"}}},
        {"metadata": {"annotations": {"stray": "annotation"}}},
        {"data": {"stray": "field"}},
    ],
)
async def test_a_child_that_somebody_edited_is_sent_again(api: FakeApi, applier: Applier, edit: dict[str, Any]) -> None:
    await apply(applier, api, child())
    stored = api.get("services", "qwen") or {}
    metadata = {**stored["metadata"], **edit.pop("metadata", {})}
    api.put("services", {**stored, **edit, "metadata": metadata})
    await apply(applier, api, child())
    assert patches(api) == ["qwen", "qwen"]


async def test_a_child_that_was_replaced_by_one_that_looks_the_same_is_sent_again(
    api: FakeApi, applier: Applier
) -> None:
    await apply(applier, api, child())
    stored = api.get("services", "qwen") or {}
    api.remove("services", "qwen")
    metadata = {name: value for name, value in stored["metadata"].items() if name != "uid"}
    api.put("services", {**stored, "metadata": metadata})
    await apply(applier, api, child())
    assert len(patches(api)) == 2


async def test_a_change_of_the_childs_status_is_no_reason_to_send_it(api: FakeApi, applier: Applier) -> None:
    await apply(applier, api, child(SET))
    stored = api.get("statefulsets", "qwen-decode") or {}
    api.put("statefulsets", {**stored, "metadata": {**stored["metadata"]}, "status": {"readyReplicas": 1}})
    again = await apply(applier, api, child(SET))
    assert patches(api) == ["qwen-decode"]
    assert again.live[SET]["status"] == {"readyReplicas": 1}


async def test_a_deleted_child_is_made_again(api: FakeApi, applier: Applier) -> None:
    await apply(applier, api, child())
    api.remove("services", "qwen")
    await apply(applier, api, child())
    assert api.get("services", "qwen") is not None


async def test_what_is_remembered_of_a_child_goes_with_it_and_with_the_resource(api: FakeApi, applier: Applier) -> None:
    await apply(applier, api, child(), child(SET))
    await apply(applier, api, child())
    assert applier._last[OWNER.uid].keys() == {SERVICE}
    applier.forget(OWNER.uid)
    assert applier._last == {}


async def test_a_refused_child_is_reported_and_the_others_are_applied(
    api: FakeApi, applier: Applier, metrics: Metrics
) -> None:
    api.answer("PATCH", "/statefulsets/", failure(422, IMMUTABLE_SET))
    api.answer("PATCH", "/services/", failure(403, "exceeded quota: services"))
    other = ObjectKey("v1", "ConfigMap", "qwen-decode")
    applied = await apply(applier, api, child(SET), child(), child(other))
    assert [(each.key, each.immutable) for each in applied.refusals] == [(SET, True), (SERVICE, False)]
    assert "exceeded quota" in applied.refusals[1].message
    assert applied.live.keys() == {other}
    assert (
        metrics.registry.get_sample_value("tandem_applies_total", {"kind": "StatefulSet", "result": "immutable"}) == 1
    )


async def test_an_object_of_somebody_else_is_not_taken_over(api: FakeApi, applier: Applier) -> None:
    theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "qwen", "namespace": "models"}, "spec": {}}
    api.put("services", theirs)
    applied = await apply(applier, api, child())
    assert "was not made by Tandem" in applied.refusals[0].message
    assert "another name" in applied.refusals[0].message
    assert (api.get("services", "qwen") or {})["spec"] == {}


async def test_what_a_former_resource_of_the_same_name_left_is_removed_first(api: FakeApi, applier: Applier) -> None:
    api.put("services", child(uid="former-uid"))
    with pytest.raises(Requeue) as caught:
        await apply(applier, api, child())
    assert caught.value.after == timedelta(seconds=0.5)
    assert api.get("services", "qwen") is None
    await apply(applier, api, child())
    assert (api.get("services", "qwen") or {})["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid


async def test_an_obsolete_child_is_deleted_but_not_its_successor(api: FakeApi, applier: Applier) -> None:
    api.put("services", child())
    seen = live(api)
    api.remove("services", "qwen")
    api.put("services", child())
    await applier.delete(OWNER, [SERVICE], seen)
    assert api.get("services", "qwen") is not None, "made since it was read"
    await applier.delete(OWNER, [SERVICE], live(api))
    assert api.get("services", "qwen") is None


def patch_of(stored: Mapping[str, Any], **labels: str) -> PodPatch:
    metadata = stored["metadata"]
    return PodPatch(metadata["name"], metadata["uid"], labels, {"tandem.dev/peers": "{}"})


async def test_pods_get_labels_and_annotations_and_lose_labels_that_are_no_longer_wanted(
    api: FakeApi, applier: Applier
) -> None:
    stored = api.put("pods", pod("a", labels={"app": "x"}))
    await applier.pods(OWNER, [patch_of(stored, routable="true")], {"a": stored})
    patched = await applier.pods(OWNER, [patch_of(stored)], {"a": stored})
    assert patched.live["a"]["metadata"]["labels"] == {"app": "x"}
    assert patched.live["a"]["metadata"]["annotations"] == {"tandem.dev/peers": "{}"}


async def test_a_pod_replaced_between_observing_and_patching_is_left_alone(
    api: FakeApi, applier: Applier, metrics: Metrics
) -> None:
    observed = api.put("pods", pod("a"))
    gone = api.put("pods", pod("b"))
    other = api.put("pods", pod("c"))
    for name in ("a", "b"):
        api.remove("pods", name)
    api.put("pods", pod("a"))
    patched = await applier.pods(OWNER, [patch_of(each) for each in (observed, gone, other)], {})
    assert patched.live.keys() == {"c"}
    assert patched.refusals == ()
    assert "annotations" not in (api.get("pods", "a") or {})["metadata"]
    assert api.get("pods", "b") is None, "a deleted pod is not made again"
    assert metrics.registry.get_sample_value("tandem_applies_total", {"kind": "Pod", "result": "gone"}) == 2


async def test_a_pod_whose_annotation_is_refused_is_reported(api: FakeApi, applier: Applier) -> None:
    stored = api.put("pods", pod("a"))
    api.answer("PATCH", "/pods/a", failure(422, "metadata.annotations: Too long"))
    patched = await applier.pods(OWNER, [patch_of(stored)], {"a": stored})
    assert patched.refusals[0].key == ObjectKey("v1", "Pod", "a")


async def test_trouble_with_one_pod_does_not_keep_the_others_from_being_patched(api: FakeApi, applier: Applier) -> None:
    pods = [api.put("pods", pod(name)) for name in ("a", "b", "c")]
    api.answer("PATCH", "/pods/a", *[failure(503)] * 4)
    with pytest.raises(Requeue):
        await applier.pods(OWNER, [patch_of(each) for each in pods], {})
    for name in ("b", "c"):
        assert "annotations" in (api.get("pods", name) or {})["metadata"]


def stored_resource(api: FakeApi, **content: Any) -> dict[str, Any]:
    metadata = {"name": "qwen", "namespace": "models"}
    manifest = {"apiVersion": "tandem.dev/v1alpha1", "kind": KIND, "metadata": metadata, "spec": {}, **content}
    return api.put("disaggregatedinferences", manifest)


async def test_a_status_is_written_once(api: FakeApi, applier: Applier) -> None:
    resource = stored_resource(api)
    written = await applier.raw_status(resource, {"endpoint": "x"})
    assert (written or {})["status"] == {"endpoint": "x"}
    again = api.get("disaggregatedinferences", "qwen") or {}
    assert await applier.raw_status(again, {"endpoint": "x"}) is None
    assert [path.endswith("/qwen/status") for _, path, _ in api.writes] == [True]


async def test_the_status_of_a_deleted_resource_is_not_given_to_its_successor(api: FakeApi, applier: Applier) -> None:
    former = stored_resource(api)
    api.remove("disaggregatedinferences", "qwen")
    stored_resource(api)
    with pytest.raises(Conflict):
        await applier.raw_status(former, {"endpoint": "x"})
    assert "status" not in (api.get("disaggregatedinferences", "qwen") or {})


async def test_an_event_says_what_happened_to_which_resource(api: FakeApi, applier: Applier) -> None:
    resource = stored_resource(api)
    await applier.events(
        resource, [EventType("NoPrefillReady", warning=True, message="no prefill engine " + "ü" * 2000)]
    )
    (event,) = [item for key, item in api.objects.items() if key.plural == "events"]
    assert (event["reason"], event["type"], event["reportingInstance"]) == ("NoPrefillReady", "Warning", "replica-1")
    assert event["regarding"]["uid"] == resource["metadata"]["uid"]
    assert len(event["note"].encode()) <= 1024
    assert event["eventTime"].endswith("Z")
    assert "." in event["eventTime"], "MicroTime has microseconds"


async def test_an_event_that_is_refused_does_not_stop_the_work(api: FakeApi, applier: Applier) -> None:
    resource = stored_resource(api)
    api.answer("POST", "/events", failure(403, "namespace is being terminated"))
    happened = [EventType("Settled", warning=False, message="one"), EventType("Settled", warning=False, message="two")]
    await applier.events(resource, happened)
    assert [key.plural for key in api.objects].count("events") == 1


async def test_a_write_to_a_watched_kind_is_awaited_in_its_watch(
    api: FakeApi, client: Client, metrics: Metrics
) -> None:
    time = 0.0
    expected = frozenset({Stream("statefulsets", None)})
    watches = Watches(expected, request_limit=100, echo_limit=10, clock=lambda: time)
    applier = Applier(client, metrics, watches, News(), reporter="replica-1")
    await apply(applier, api, child(), child(SET))
    time = 11.0
    assert watches.dead() == ["the watch of statefulsets did not tell of a write 11 s ago"]
    watches.heard("statefulsets", (api.get("statefulsets", "qwen-decode") or {})["metadata"])
    assert watches.dead() == []


async def test_a_pod_is_evicted_only_while_it_is_the_one_that_was_meant(api: FakeApi, applier: Applier) -> None:
    uid = api.put("pods", pod("a"))["metadata"]["uid"]
    await applier.evict(OWNER, [Eviction("a", "another"), Eviction("gone", "any")])
    assert api.get("pods", "a") is not None
    await applier.evict(OWNER, [Eviction("a", uid)])
    assert api.get("pods", "a") is None


async def test_an_eviction_that_a_budget_does_not_allow_is_left_for_the_next_look(
    api: FakeApi, applier: Applier
) -> None:
    uid = api.put("pods", pod("a"))["metadata"]["uid"]
    api.answer(
        "POST", "/pods/a/eviction", failure(429, "Cannot evict pod as it would violate the pod's disruption budget.")
    )
    await applier.evict(OWNER, [Eviction("a", uid)])
    assert api.get("pods", "a") is not None
    await applier.evict(OWNER, [Eviction("a", uid)])
    assert api.get("pods", "a") is None
