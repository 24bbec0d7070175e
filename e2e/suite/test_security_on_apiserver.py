# SPDX-License-Identifier: Apache-2.0
"""What the accounts may do, and what Pod Security lets in, as a real API server with controllers says."""

import json
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import ACCOUNT_NAMESPACE, OperatorProcess
from e2e.suite.served import a_resource
from tandem_operator.api.names import FRONT_DOOR_ROLE, RESOURCE_LABEL, ROLE_LABEL, front_door_name

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

OPERATOR = f"system:serviceaccount:{ACCOUNT_NAMESPACE}:tandem-operator"


def may(kubectl: Kubectl, user: str, verb: str, what: str, namespace: str | None = None) -> bool:
    """Whether the user has the right to `resource`, `resource/subresource` or `resource.group`."""
    resource, _, subresource = what.partition("/")
    plural, _, group = resource.partition(".")
    about = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    spec = {"user": user, "resourceAttributes": {**about, "namespace": namespace or kubectl.namespace}}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = json.loads(kubectl.run("create", "-f", "-", "-o", "json", stdin=json.dumps(asked)))
    return bool(answer["status"]["allowed"])


def enforce(kubectl: Kubectl, level: str) -> None:
    kubectl.run("label", "namespace", kubectl.namespace, f"pod-security.kubernetes.io/enforce={level}")


def pods(kubectl: Kubectl, role: str) -> int:
    return len(kubectl.list("pod", f"{RESOURCE_LABEL}=qwen,{ROLE_LABEL}={role}"))


def refusal(kubectl: Kubectl, owner: str) -> str:
    """What the controller of an object was told last when it made a pod."""
    events = [each for each in kubectl.list("events") if each["involvedObject"]["name"] == owner]
    return next((each["message"] for each in reversed(events) if "violates PodSecurity" in each["message"]), "")


def test_a_front_door_is_let_in_where_only_restricted_pods_are_and_engines_with_efa_are_not(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    enforce(kubectl, "restricted")
    kubectl.apply(a_resource())
    wait_until("a pod of the front door", lambda: pods(kubectl, FRONT_DOOR_ROLE) == 1, timeout=60)
    wait_until("engines to be refused", lambda: "IPC_LOCK" in refusal(kubectl, "qwen-decode"), timeout=60)
    assert pods(kubectl, "decode") == pods(kubectl, "prefill") == 0


def test_pod_security_bounds_what_a_pod_template_may_ask_for(kubectl: Kubectl, replica: OperatorProcess) -> None:
    enforce(kubectl, "baseline")
    everything: dict[str, Any] = {"spec": {"volumes": [{"name": "node", "hostPath": {"path": "/"}}], "hostPID": True}}
    kubectl.apply(
        a_resource(
            accelerator={"instanceType": "none"},
            prefill={"replicas": 1},
            decode={"replicas": 1, "podTemplate": everything},
        )
    )
    wait_until("the engine that asks for nothing", lambda: pods(kubectl, "prefill") == 1, timeout=60)
    wait_until("the other one to be refused", lambda: "hostPath" in refusal(kubectl, "qwen-decode"), timeout=60)
    assert pods(kubectl, "decode") == 0


def test_the_front_doors_account_may_look_at_pods_of_its_namespace_and_nothing_else(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource())
    wait_until("its rights", lambda: kubectl.get("rolebinding", front_door_name("qwen")) is not None, timeout=60)
    account = f"system:serviceaccount:{kubectl.namespace}:{front_door_name('qwen')}"
    assert all(may(kubectl, account, verb, "pods") for verb in ("get", "list", "watch"))
    others = {
        "pods": ("create", "patch", "delete"),
        "pods/exec": ("create",),
        "pods/log": ("get",),
        "secrets": ("get", "list", "create"),
        "serviceaccounts/token": ("create",),
        "disaggregatedinferences.tandem.dev": ("get", "patch"),
        "roles.rbac.authorization.k8s.io": ("create", "bind", "escalate"),
    }
    assert [(verb, what) for what, verbs in others.items() for verb in verbs if may(kubectl, account, verb, what)] == []
    assert not may(kubectl, account, "list", "pods", namespace="kube-system")


def test_the_operators_account_reads_no_secret_enters_no_pod_and_grants_nothing_that_it_lacks(kubectl: Kubectl) -> None:
    forbidden = {
        "secrets": ("get", "list", "watch", "patch", "delete"),
        "pods": ("create", "delete"),
        "pods/exec": ("create",),
        "pods/log": ("get",),
        "serviceaccounts/token": ("create",),
        "serviceaccounts": ("impersonate",),
        "roles.rbac.authorization.k8s.io": ("bind", "escalate"),
        "clusterroles.rbac.authorization.k8s.io": ("create", "bind", "escalate"),
        "clusterrolebindings.rbac.authorization.k8s.io": ("create",),
        "nodes": ("patch", "delete"),
        "disaggregatedinferences.tandem.dev": ("create", "update", "patch", "delete"),
    }
    assert [(v, what) for what, verbs in forbidden.items() for v in verbs if may(kubectl, OPERATOR, v, what)] == []
    assert may(kubectl, OPERATOR, "create", "statefulsets.apps"), "with which it may mount what its namespace has"
