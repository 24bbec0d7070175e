# SPDX-License-Identifier: Apache-2.0
"""The operator's process on a real API server with controllers and simulated nodes, whose pods are ready at once."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from e2e.cluster.local.simulated import node
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import ACCOUNT_NAMESPACE, OperatorProcess, operator
from e2e.suite.served import a_resource, condition, engines, tables, wait_for
from tandem_connector.contract.keys import ExchangeKey
from tandem_operator.api.names import KIND, RESOURCE_LABEL, ROUTABLE_LABEL
from tandem_operator.kube.access import find_access
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import Conflict
from tandem_operator.kube.kinds import CHILD_KINDS, POD, Kind
from tandem_operator.metrics import Metrics

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

CHILDREN = "statefulset,deployment,service,configmap,serviceaccount,role,rolebinding"


def children(kubectl: Kubectl) -> list[Mapping[str, Any]]:
    return [item for kind in CHILDREN.split(",") for item in kubectl.list(kind, f"{RESOURCE_LABEL}=qwen")]


def versions(objects: list[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    return {(item["kind"], item["metadata"]["uid"]): item["metadata"]["resourceVersion"] for item in objects}


def is_ours(item: Mapping[str, Any]) -> bool:
    """Whether the operator makes it: sets have revisions of their own with the same labels."""
    return any(owner["kind"] == KIND for owner in item["metadata"].get("ownerReferences", ()))


def may(kubectl: Kubectl, verb: str, resource: str) -> bool:
    """Whether the operator's account has the right."""
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{ACCOUNT_NAMESPACE}:tandem-operator",
            "resourceAttributes": {"namespace": kubectl.namespace, "verb": verb, "resource": resource},
        },
    }
    answer = json.loads(kubectl.run("create", "-f", "-", "-o", "json", stdin=json.dumps(asked)))
    return bool(answer["status"]["allowed"])


def test_a_resource_becomes_ready_with_engines_that_know_each_other(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    found = tables(kubectl)
    assert {name: [peer.pod for peer in table.peers] for name, table in found.items()} == {
        "qwen-decode-0": ["qwen-prefill-0"],
        "qwen-prefill-0": ["qwen-decode-0"],
    }
    (peer,) = found["qwen-decode-0"].peers
    assert peer.network.zone == "us-west-2a"
    assert len(peer.network.layers) == 3
    routable = [pod["metadata"]["name"] for pod in engines(kubectl) if ROUTABLE_LABEL in pod["metadata"]["labels"]]
    assert routable == ["qwen-decode-0", "qwen-prefill-0"], "what may be used is marked in both roles"
    assert replica.is_healthy()


def test_transitions_are_reported_as_events(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    # The old API of Events, which `kubectl describe` reads, shows what was written through the new one.
    found = [event for event in kubectl.list("events.v1.") if event["involvedObject"]["kind"] == KIND]
    assert "EnginesReady" in {event["reason"] for event in found}
    assert {event["reportingComponent"] for event in found} == {"tandem.dev/operator"}


def test_the_operator_owns_status_and_children_and_nothing_of_the_spec(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    resource = kubectl.get(KIND.lower(), "qwen") or {}
    full = kubectl.run(
        "get", KIND.lower(), "qwen", "-o", "jsonpath={.metadata.managedFields[*]['manager','subresource']}"
    )
    assert "tandem status" in full
    assert full.count("tandem") == 1
    assert "finalizers" not in resource["metadata"]
    assert resource["metadata"]["generation"] == 1
    assert "status" in resource
    for child in children(kubectl):
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (KIND, resource["metadata"]["uid"], True)


def test_engines_share_a_key_that_the_operator_made_and_may_not_read(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    (secret,) = kubectl.list("secret", f"{RESOURCE_LABEL}=qwen")
    key = base64.b64decode(secret["data"]["exchange.json"])
    assert ExchangeKey.model_validate_json(key)
    assert "immutable" not in secret
    for role in ("prefill", "decode"):
        volumes = (kubectl.get("statefulset", f"qwen-{role}") or {})["spec"]["template"]["spec"]["volumes"]
        assert secret["metadata"]["name"] in [each["secret"]["secretName"] for each in volumes if "secret" in each]
    assert {
        verb for verb in ("create", "get", "list", "watch", "patch", "delete") if may(kubectl, verb, "secrets")
    } == {"create"}


def test_a_key_that_is_replaced_in_its_secret_stays_and_restarts_no_engine(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    (secret,) = kubectl.list("secret", f"{RESOURCE_LABEL}=qwen")
    former = ExchangeKey.model_validate_json(base64.b64decode(secret["data"]["exchange.json"]))
    key = ExchangeKey(secret_key="f" * 64, previous_secret_key=former.secret_key)
    before = {pod["metadata"]["uid"] for pod in engines(kubectl)}
    change = json.dumps({"stringData": {"exchange.json": key.to_file()}})
    kubectl.run("patch", "secret", secret["metadata"]["name"], "--type=merge", "-p", change)
    # An engine that starts has the operator see to the key again.
    kubectl.run("patch", KIND.lower(), "qwen", "--type=merge", "-p", '{"spec": {"decode": {"replicas": 2}}}')
    wait_until("another engine", lambda: len(engines(kubectl)) == 3, timeout=60)
    wait_for(kubectl, "Ready")
    (after,) = kubectl.list("secret", f"{RESOURCE_LABEL}=qwen")
    assert ExchangeKey.model_validate_json(base64.b64decode(after["data"]["exchange.json"])) == key
    assert before <= {pod["metadata"]["uid"] for pod in engines(kubectl)}


def test_engines_that_wait_for_the_users_key_degrade_the_resource_until_it_is_there(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    reference = {"secretRef": {"name": "keys", "key": "chat"}}
    # On simulated nodes pods start without their volumes, so nothing is to start only where there are no nodes for it.
    nowhere = {"spec": {"nodeSelector": {"nowhere": "true"}}}
    parts = {role: {"parallelism": {"tensor": 8}, "podTemplate": nowhere} for role in ("prefill", "decode")}
    kubectl.apply(a_resource(transfer={"auth": reference}, **parts))
    wait_for(kubectl, "Degraded", reason="KeyMissing")
    assert kubectl.get("secret", "keys") is None
    kubectl.run("create", "secret", "generic", "keys", f"--from-literal=chat={ExchangeKey.generate().to_file()}")
    wait_for(kubectl, "Degraded", reason="Unschedulable")


def test_devices_that_no_node_offers_degrade_the_resource_until_their_plugin_runs(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    bare = node(99)
    bare["metadata"] = {"name": "bare", "labels": {"node.kubernetes.io/instance-type": "g6e.48xlarge"}}
    bare["status"] = {"allocatable": {"cpu": "192", "memory": "1Ti", "pods": "100"}}
    kubectl.apply(bare)
    try:
        kubectl.apply(a_resource(accelerator={"instanceType": "g6e.48xlarge", "hugepages2Mi": "64Mi"}))
        wait_for(kubectl, "Degraded", reason="DevicePluginMissing")
        told = condition(kubectl, "Degraded")["message"]
        assert (
            "node.kubernetes.io/instance-type=g6e.48xlarge offers nvidia.com/gpu: install the NVIDIA device plugin"
            in told
        )
        assert "offers vpc.amazonaws.com/efa: install the EFA device plugin" in told
        bare["status"]["allocatable"].update({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "4"})
        kubectl.run("replace", "--raw", "/api/v1/nodes/bare/status", "-f", "-", stdin=json.dumps(bare))
        wait_for(kubectl, "Degraded", reason="HugePagesNotOffered")
    finally:
        kubectl.delete("node", "bare")


def test_a_settled_resource_causes_no_writes(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    wait_until("the queue to be empty", lambda: replica.metric("tandem_queue_depth") == 0, timeout=30)
    before = replica.metric("tandem_applies_total", result="changed")
    looks = replica.metric("tandem_reconcile_duration_seconds_count")
    kubectl.run("annotate", KIND.lower(), "qwen", "somebody=else")
    wait_until("another look", lambda: replica.metric("tandem_reconcile_duration_seconds_count") > looks, timeout=30)
    assert replica.metric("tandem_applies_total", result="changed") == before


def test_what_somebody_changes_in_a_child_is_put_back(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    kubectl.run("scale", "statefulset", "qwen-decode", "--replicas=3")
    kubectl.run("delete", "deployment", "qwen")

    def is_back() -> bool:
        stateful_set = kubectl.get("statefulset", "qwen-decode") or {}
        return stateful_set["spec"]["replicas"] == 1 and kubectl.get("deployment", "qwen") is not None

    wait_until("the children to be as before", is_back, timeout=30)


def test_a_child_of_any_kind_that_is_deleted_alone_is_made_again(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource(decode={"parallelism": {"tensor": 8}, "autoscaling": {"maxReplicas": 2}}))
    wait_for(kubectl, "Ready")
    for kind in CHILD_KINDS:

        def found(kind: Kind = kind) -> dict[str, str]:
            listed = kubectl.list(kind.plural, f"{RESOURCE_LABEL}=qwen")
            return {item["metadata"]["name"]: item["metadata"]["uid"] for item in listed if is_ours(item)}

        before = found()
        # Nothing else happens that would be a reason for another look.
        wait_until("the queue to be empty", lambda: replica.metric("tandem_queue_depth") == 0, timeout=30)
        kubectl.run("delete", kind.plural, min(before), "--wait=false")

        def is_back(before: dict[str, str] = before, found: Callable[[], dict[str, str]] = found) -> bool:
            now = found()
            return now.keys() == before.keys() and now[min(before)] != before[min(before)]

        wait_until(f"the {kind.kind} to be made again", is_back, timeout=30)
        wait_for(kubectl, "Ready")


def test_more_engines_are_made_known_to_those_that_run(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    before = tables(kubectl)["qwen-prefill-0"].generation
    decode = {"replicas": 3, "parallelism": {"tensor": 8}}
    kubectl.apply(a_resource(decode=decode))

    def is_known() -> bool:
        peers = tables(kubectl)["qwen-prefill-0"].peers
        return {peer.pod for peer in peers} == {f"qwen-decode-{number}" for number in range(3)}

    wait_until("the new engines to be known", is_known, timeout=60)
    assert tables(kubectl)["qwen-prefill-0"].generation > before


def test_an_object_of_somebody_else_is_left_alone_and_named(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.run("create", "service", "clusterip", "qwen", "--tcp=80")
    kubectl.apply(a_resource())
    wait_for(kubectl, "Degraded", reason="ApplyFailed")
    assert "Service qwen exists and was not made by Tandem" in condition(kubectl, "Degraded")["message"]
    assert (kubectl.get("service", "qwen") or {})["spec"]["ports"][0]["port"] == 80
    assert kubectl.get("statefulset", "qwen-decode") is not None, "the others are made"


def test_deleting_the_resource_removes_everything(kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    assert len(children(kubectl)) >= 9
    kubectl.delete(KIND.lower(), "qwen")
    wait_until("the children to go", lambda: not children(kubectl) and not engines(kubectl), timeout=60)


def test_a_resource_recreated_at_once_under_the_same_name_becomes_ready(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    former = {pod["metadata"]["uid"] for pod in engines(kubectl)}
    kubectl.delete(KIND.lower(), "qwen", "--wait=false")
    kubectl.apply(a_resource())
    wait_for(kubectl, "Ready")
    uid = (kubectl.get(KIND.lower(), "qwen") or {})["metadata"]["uid"]
    assert {child["metadata"]["ownerReferences"][0]["uid"] for child in children(kubectl)} == {uid}
    assert former.isdisjoint(pod["metadata"]["uid"] for pod in engines(kubectl))


def test_another_replica_takes_over_when_the_leader_is_killed_and_pods_are_not_touched(
    kubectl: Kubectl, kubeconfig: Path
) -> None:
    with (
        operator(kubeconfig, kubectl.namespace, "first") as first,
        operator(kubeconfig, kubectl.namespace, "second") as second,
    ):
        wait_until("one replica to lead", lambda: first.leads() or second.leads(), timeout=30)
        leader, standby = (first, second) if first.leads() else (second, first)
        assert not standby.leads()
        kubectl.apply(a_resource())
        wait_for(kubectl, "Ready")
        assert standby.metric("tandem_applies_total") == 0
        pods = versions(engines(kubectl))

        leader.kill()
        killed = time.monotonic()
        wait_until("the standby to lead", standby.leads, timeout=30)
        print(f"took over {time.monotonic() - killed:.1f} s after the leader was killed (duration of the Lease: 3 s)")
        kubectl.run("delete", "service", "qwen-decode")
        kubectl.run("annotate", KIND.lower(), "qwen", "look=here")
        wait_until("the new leader to work", lambda: kubectl.get("service", "qwen-decode"), timeout=30)
        assert versions(engines(kubectl)) == pods


def test_a_leader_that_is_stopped_hands_over_before_the_lease_expires(kubectl: Kubectl, kubeconfig: Path) -> None:
    with operator(kubeconfig, kubectl.namespace, "first", lease_duration="60", lease_renew_deadline="40") as first:
        wait_until("it to lead", first.leads, timeout=30)
        with operator(kubeconfig, kubectl.namespace, "second") as second:
            assert not second.leads()
            assert first.stop() == 0
            wait_until("the other to lead", second.leads, timeout=10)


def test_a_restarted_operator_touches_neither_pods_nor_children(kubectl: Kubectl, kubeconfig: Path) -> None:
    with operator(kubeconfig, kubectl.namespace, "before"):
        kubectl.apply(a_resource())
        wait_for(kubectl, "Ready")
        wait_until("the pods' tables", lambda: len(tables(kubectl)) == 2, timeout=30)
    before = versions([*engines(kubectl), *children(kubectl)])
    with operator(kubeconfig, kubectl.namespace, "after") as after:
        done = {"outcome": "done"}
        wait_until("a look", lambda: after.metric("tandem_reconcile_duration_seconds_count", **done) >= 1, timeout=30)
        assert after.metric("tandem_applies_total", result="unchanged") >= 9
        assert after.metric("tandem_applies_total", result="changed") == 0
    assert versions([*engines(kubectl), *children(kubectl)]) == before


def test_a_namespace_that_is_not_served_is_left_alone(kubectl: Kubectl, kubeconfig: Path) -> None:
    with operator(kubeconfig, kubectl.namespace, "only", namespaces="default") as replica:
        kubectl.apply(a_resource())
        time.sleep(2)
        assert replica.metric("tandem_watch_events_total", resource="disaggregatedinferences") == 0
        assert children(kubectl) == []


def test_a_pod_that_was_replaced_is_neither_changed_nor_made_by_a_patch_for_its_predecessor(
    kubectl: Kubectl, kubeconfig: Path
) -> None:
    container = {"name": "main", "image": "nothing"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    kubectl.apply(pod)
    former = "00000000-0000-4000-8000-000000000000"

    async def patch(name: str, uid: str) -> Any:
        access = await find_access(kubeconfig)
        metadata = {"name": name, "namespace": kubectl.namespace, "uid": uid, "labels": {"for": "predecessor"}}
        async with Client(access.configuration, Metrics(CollectorRegistry())) as client:
            return await client.apply(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    for name in ("a", "vanished"):
        with pytest.raises(Conflict):
            asyncio.run(patch(name, former))
    assert "labels" not in (kubectl.get("pod", "a") or {})["metadata"]
    assert kubectl.get("pod", "vanished") is None
    uid = (kubectl.get("pod", "a") or {})["metadata"]["uid"]
    assert asyncio.run(patch("a", uid))["metadata"]["labels"] == {"for": "predecessor"}


def test_many_resources_at_once_are_each_looked_at_a_few_times(kubectl: Kubectl, replica: OperatorProcess) -> None:
    resources = [a_resource(prefill={"replicas": 0}, decode={"replicas": 0}) for _ in range(20)]
    for number, resource in enumerate(resources):
        resource["metadata"]["name"] = f"empty-{number}"
    cpu = replica.metric("process_cpu_seconds_total")
    kubectl.apply(*resources)

    def are_seen() -> bool:
        found = kubectl.list(KIND.lower())
        return len(found) == 20 and all("status" in item for item in found)

    wait_until("20 resources to be seen", are_seen, timeout=120)
    wait_until("the queue to be empty", lambda: replica.metric("tandem_queue_depth") == 0, timeout=60)
    looks = replica.metric("tandem_queue_latency_seconds_count")
    waited = replica.metric("tandem_queue_latency_seconds_sum") / looks
    worked = replica.metric("tandem_reconcile_duration_seconds_sum") / looks
    cpu = (replica.metric("process_cpu_seconds_total") - cpu) / looks
    print(
        f"{looks:.0f} looks at 20 resources, on average {waited:.2f} s waiting, {worked:.2f} s working, {cpu:.3f} s of CPU"
    )
    print(f"resident memory: {replica.memory() / 2**20:.0f} MiB")
    assert looks <= 120, "each resource has three watched children that each change a few times"
    assert replica.metric("tandem_reconcile_failures_total") == 0
