# SPDX-License-Identifier: Apache-2.0
"""What is in Git is applied again and again, and from the second time on that changes nothing on a real API server."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, engines, wait_for
from tandem_operator.api.names import KIND, SCALER_SINGULAR
from tests.chart.other_values import OTHER_VALUES, merged, nested
from tests.chart.rendering import NAMESPACE, render
from tests.chart.test_objects import EVERYTHING
from tests.manifests.checking import documents, files

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

Manifest = dict[str, Any]
MANAGER = "argocd-controller"
"""As Argo CD calls itself."""
SHARED = ("CustomResourceDefinition", "Namespace")
"""What tests share, and never delete."""


class Way(Enum):
    """How what is in Git comes to the server. The values are kubectl's options."""

    SERVER_SIDE = ("--server-side", "--force-conflicts", f"--field-manager={MANAGER}")
    CLIENT_SIDE = ()

    @property
    def manager(self) -> str:
        return MANAGER if self.value else "kubectl-client-side-apply"


WAYS = pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())
SECOND_WAY_LONG = pytest.mark.parametrize(
    "way",
    [
        pytest.param(Way.SERVER_SIDE, id="server_side"),
        pytest.param(Way.CLIENT_SIDE, id="client_side", marks=pytest.mark.long),
    ],
)
"""Argo CD's own way always, the other one by `make test-long`."""


def everything_else() -> Manifest:
    """Another value of each key of the chart, but for those that make less."""
    values: Manifest = {}
    for path, value in OTHER_VALUES.items():
        if value is not False:
            values = merged(values, nested(path, value))
    return values


def chart(values: Manifest) -> list[Manifest]:
    """Without the pod of `helm test`, a hook, and without the rules of alerts, whose definition isn't at hand."""
    return [each for each in render(values) if each["kind"] not in {"Pod", "PrometheusRule"}]


SETS: dict[str, Callable[[], list[Manifest]]] = {
    "the plain install": lambda: documents("install.yaml"),
    "the chart with everything": lambda: chart(EVERYTHING),
    "the chart with other values": lambda: chart(everything_else()),
}
"""The plain install is the chart with its defaults."""


def listed(manifests: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})


def applied(kubectl: Kubectl, way: Way, manifests: Sequence[Manifest]) -> list[Manifest]:
    """What the server makes of them."""
    said = kubectl.run("apply", *way.value, "--show-managed-fields", "-o", "json", "-f", "-", stdin=listed(manifests))
    found: Manifest = json.loads(said)
    return found["items"] if found["kind"] == "List" else [found]


def difference(kubectl: Kubectl, way: Way, manifests: Sequence[Manifest]) -> str:
    """As `kubectl diff` shows it; it fails where there is one."""
    return kubectl.run("diff", *way.value, "-f", "-", stdin=listed(manifests))


def of_others(manifest: Manifest, manager: str) -> Manifest:
    """What others than the manager have written: controllers, the operator."""
    managed = [each for each in manifest["metadata"].get("managedFields", []) if each["manager"] != manager]
    return {"status": manifest.get("status"), "managedFields": managed}


def of_git(manifest: Manifest, manager: str) -> Manifest:
    """All the rest, with what the manager holds and since when, and with the generation."""
    managed = [each for each in manifest["metadata"].get("managedFields", []) if each["manager"] == manager]
    metadata = {**manifest["metadata"], "managedFields": managed}
    del metadata["resourceVersion"]
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": metadata}


def changes_nothing(kubectl: Kubectl, way: Way, manifests: Sequence[Manifest]) -> None:
    """Hold a further apply of what was applied to that; an assertion that fails is a change."""
    before = read(kubectl, manifests)

    assert difference(kubectl, way, manifests) == ""
    again = applied(kubectl, way, manifests)

    assert len(again) == len(before)
    for old, new in zip(before, again, strict=True):
        assert of_git(new, way.manager) == of_git(old, way.manager)
        if of_others(new, way.manager) == of_others(old, way.manager):
            assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"], old["kind"]


def read(kubectl: Kubectl, manifests: Sequence[Manifest]) -> list[Manifest]:
    """The objects as they are on the server."""
    found: Manifest = json.loads(
        kubectl.run("get", "-f", "-", "--show-managed-fields", "-o", "json", stdin=listed(manifests))
    )
    return found["items"] if found["kind"] == "List" else [found]


def here(manifest: Mapping[str, Any], namespace: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


class Everywhere(Kubectl):
    """Leaves each object in the namespace that it names."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.command = tuple(cluster.kubectl)


@pytest.fixture
def everywhere(control_plane: Cluster, known: None) -> Kubectl:
    """With the namespaces that the chart's examples name."""
    kubectl = Everywhere(control_plane)
    for name in (NAMESPACE, "team-a", "team-b"):
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return kubectl


def remove(kubectl: Kubectl, manifests: Sequence[Manifest]) -> None:
    """Delete them, but for those that tests share."""
    own = [each for each in manifests if each["kind"] not in SHARED]
    kubectl.run("delete", "--ignore-not-found", "-f", "-", stdin=listed(own))


@SECOND_WAY_LONG
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name == "the chart with other values" else []) for name in SETS],
)
def test_what_installs_the_operator_changes_nothing_when_it_is_applied_again(
    name: str, way: Way, everywhere: Kubectl
) -> None:
    manifests = SETS[name]()
    assert {"CustomResourceDefinition", "Deployment", "ClusterRole"} <= {each["kind"] for each in manifests}
    try:
        applied(everywhere, way, manifests)

        changes_nothing(everywhere, way, manifests)
    finally:
        remove(everywhere, manifests)


@WAYS
@pytest.mark.long  # Each of six files is served, and applied three times.
def test_a_sample_changes_nothing_when_it_is_applied_again_after_the_operator_worked(
    way: Way, replica: OperatorProcess, kubectl: Kubectl
) -> None:
    for path in files("samples"):
        sample = [here(each, kubectl.namespace) for each in documents(path)]
        applied(kubectl, way, sample)
        wait_until(f"the operator to have seen {path}", lambda: not unseen(kubectl), timeout=60)

        changes_nothing(kubectl, way, sample)


def unseen(kubectl: Kubectl) -> list[Manifest]:
    """The resources that have no status of what they now are."""
    found = [dict(each) for each in kubectl.list(KIND.lower())]
    return [
        each for each in found if each.get("status", {}).get("observedGeneration") != each["metadata"]["generation"]
    ]


@SECOND_WAY_LONG
def test_an_example_for_other_projects_kinds_changes_nothing_when_it_is_applied_again(
    way: Way, known: None, kubectl: Kubectl
) -> None:
    ours = [each for path in files("eks", "argocd", "scaling", "gateway") for each in documents(path)]
    named = {(each["kind"], each["metadata"]["name"]): each for each in ours if each["kind"] != "ClusterConfig"}
    examples = [here(each, kubectl.namespace) for each in named.values()]
    try:
        applied(kubectl, way, examples)

        changes_nothing(kubectl, way, examples)
    finally:
        remove(kubectl, examples)


@SECOND_WAY_LONG
def test_nothing_of_what_is_in_git_is_changed_by_the_operator_or_an_autoscaler(
    way: Way, replica: OperatorProcess, kubectl: Kubectl
) -> None:
    in_git = [here(a_resource(decode={"parallelism": {"tensor": 8}}), kubectl.namespace)]
    applied(kubectl, way, in_git)
    wait_for(kubectl, "Ready")
    kubectl.run("scale", f"{SCALER_SINGULAR}/qwen-decode", "--replicas=2")
    wait_until("two decode engines", lambda: len(engines(kubectl)) == 3, timeout=60)
    wait_for(kubectl, "Ready")

    changes_nothing(kubectl, way, in_git)
    assert len(engines(kubectl)) == 3


def test_a_change_is_told_from_none(kubectl: Kubectl) -> None:
    def named(value: str) -> list[Manifest]:
        map_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "some"}, "data": {"a": value}}
        return [here(map_, kubectl.namespace)]

    applied(kubectl, Way.SERVER_SIDE, named("1"))

    changes_nothing(kubectl, Way.SERVER_SIDE, named("1"))
    with pytest.raises(Exception, match=r"\+  a: \"2\""):
        changes_nothing(kubectl, Way.SERVER_SIDE, named("2"))
