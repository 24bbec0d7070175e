# SPDX-License-Identifier: Apache-2.0
"""Examples for other projects' kinds, and what a GitOps controller applies again and again, on a real API server."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl, KubectlError
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, engines, wait_for
from tandem_operator.api.names import KIND, SCALER_SINGULAR
from tests.manifests.checking import definitions, documents, files

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

MANAGER = "argocd-controller"
"""As Argo CD calls itself."""
VOLATILE = ("managedFields", "resourceVersion")


@pytest.fixture
def known(kubectl: Kubectl) -> Iterator[None]:
    """The definitions of Karpenter, KEDA, the Gateway API and Argo CD, with the rules that only a server evaluates."""
    names = [f"crd/{each['metadata']['name']}" for each in definitions()]
    kubectl.apply(*definitions())
    try:
        kubectl.run("wait", "--for=condition=Established", *names, "--timeout=30s")
        yield
    finally:
        kubectl.run("delete", *names, "--wait")


def applied(kubectl: Kubectl, manifest: Mapping[str, Any], *options: str) -> dict[str, Any]:
    """What the server makes of it."""
    command = ("apply", "--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "-o", "json", "-f", "-")
    found: dict[str, Any] = json.loads(kubectl.run(*command, *options, stdin=json.dumps(manifest)))
    return found


def compared(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """As Argo CD's server-side diff compares: status and bookkeeping are left out."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in VOLATILE}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": metadata}


def here(manifest: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def test_every_example_is_taken_by_the_rules_of_its_kind(known: None, kubectl: Kubectl) -> None:
    ours = [each for path in files("eks", "argocd", "scaling", "gateway") for each in documents(path)]
    examples = [here(each, kubectl.namespace) for each in ours if each["kind"] != "ClusterConfig"]

    for example in examples:
        applied(kubectl, example, "--dry-run=server", "--validate=strict")

    assert len(examples) >= 10
    [node_class] = [each for each in examples if (each["kind"], each["metadata"]["name"]) == ("EC2NodeClass", "p5en")]
    with pytest.raises(KubectlError, match="role cannot be empty"):
        applied(kubectl, {**node_class, "spec": {**node_class["spec"], "role": ""}}, "--dry-run=server")


def test_nothing_of_what_is_in_git_is_changed_by_the_operator_or_an_autoscaler(
    replica: OperatorProcess, kubectl: Kubectl
) -> None:
    in_git = here(a_resource(decode={"parallelism": {"tensor": 8}}), kubectl.namespace)
    applied(kubectl, in_git)
    wait_for(kubectl, "Ready")
    kubectl.run("scale", f"{SCALER_SINGULAR}/qwen-decode", "--replicas=2")
    wait_until("two decode engines", lambda: len(engines(kubectl)) == 3, timeout=60)
    wait_for(kubectl, "Ready")

    live = kubectl.get(KIND.lower(), "qwen")
    assert live is not None
    assert compared(applied(kubectl, in_git, "--dry-run=server")) == compared(live)
    assert applied(kubectl, in_git)["metadata"]["generation"] == live["metadata"]["generation"]
    assert len(engines(kubectl)) == 3
