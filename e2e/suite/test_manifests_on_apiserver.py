# SPDX-License-Identifier: Apache-2.0
"""Examples for other projects' kinds on a real API server."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from e2e.kubectl import Kubectl, KubectlError
from tests.documents.written import Written
from tests.manifests.checking import documents, files

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.


def applied(kubectl: Kubectl, manifest: Mapping[str, Any], *options: str) -> dict[str, Any]:
    """What the server makes of it."""
    command = ("apply", "--server-side", "-o", "json", "-f", "-")
    found: dict[str, Any] = json.loads(kubectl.run(*command, *options, stdin=json.dumps(manifest)))
    return found


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


def test_argo_cd_is_told_of_tandem_as_its_page_says(known: None, kubectl: Kubectl, written: Written) -> None:
    kubectl.run("create", "namespace", "argocd")
    try:
        assert "configmap/argocd-cm serverside-applied" in written.run("kubectl apply --server-side")
        assert written.run("kubectl apply -f manifests/argocd").count("created") == 2
    finally:
        kubectl.run("delete", "namespace", "argocd", "--wait=false")
