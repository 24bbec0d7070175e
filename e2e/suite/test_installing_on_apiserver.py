# SPDX-License-Identifier: Apache-2.0
"""How the documents have Tandem installed, upgraded and removed, each command taken from its page, on a real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.definitions import remove
from e2e.suite.chart_release import NAMESPACE, Release, own_control_plane
from e2e.suite.served import a_resource
from tandem_operator.api.crd import SCALER
from tests.documents.written import Written, environment, written_for
from tests.manifests.checking import definitions

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PROMETHEUS_RULE = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "prometheusrules.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "PrometheusRule", "plural": "prometheusrules", "singular": "prometheusrule"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""Takes whatever is in one."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from own_control_plane(tmp_path_factory.mktemp("chart"), simulated_nodes=1)


@pytest.fixture
def release(cluster: Cluster) -> Release:
    """Nothing of the chart is there."""
    release = Release(cluster)
    release.remove_all()
    return release


@pytest.fixture
def written(request: pytest.FixtureRequest, release: Release, tmp_path: Path) -> Iterator[Written]:
    """The commands of the documents that the test has to run, for this cluster."""
    config = str(release.cluster.kubeconfig)
    with written_for(request.node.nodeid, environment(tmp_path, KUBECONFIG=config)) as written:
        yield written


def _images(release: Release) -> set[str]:
    """Of the operator, and those that it gives to others."""
    deployment = release.kubectl.get("deployment", "tandem")
    assert deployment
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    return {container["image"], variables["TANDEM_FRONT_DOOR_IMAGE"], variables["TANDEM_CONNECTOR_IMAGE"]}


def test_the_ways_to_install_it_that_the_documents_name(release: Release, written: Written) -> None:
    registry = "registry.example"
    # GPU nodes are tainted, and the operator's pods have no business there; `--wait` waits for them.
    release.kubectl.run("taint", "node", "--all", "nvidia.com/gpu-")
    for way in sorted(written.left):
        assert "STATUS: deployed" in written.run(way, REGISTRY=registry)

        assert {image.startswith(registry) for image in _images(release)} == {"REGISTRY" in way}
        release.uninstall()


def test_it_is_upgraded_rolled_back_and_removed_as_its_readme_says(release: Release, written: Written) -> None:
    release.install("image.repository=registry.example/operator")
    release.establish_definition()
    release.kubectl.apply(a_resource())

    assert written.run("helm get values") == "", "the same chart with the same values changes nothing"
    written.run("helm upgrade tandem charts/tandem --namespace tandem-system")
    assert "registry.example/operator:0.1.0" in _images(release)
    written.run("helm rollback")

    monitors = [*definitions(), PROMETHEUS_RULE]
    release.kubectl.apply(*monitors)
    written.run("helm upgrade tandem charts/tandem --namespace tandem-system --reset-then-reuse-values")
    assert "registry.example/operator:0.1.0" in _images(release)
    made = release.kubectl.run("get", "servicemonitors,podmonitors,prometheusrules,configmaps", "-o", "name")
    assert [made.count(f"{kind}") for kind in ("servicemonitor.", "podmonitor.", "prometheusrule.")] == [1, 2, 1]
    assert "configmap/tandem-dashboard" in made

    # As an operator that runs has: else the API server may take five minutes to let the definition go.
    release.kubectl.run("get", SCALER.name, "--all-namespaces")
    for line in ("kubectl delete pdi", "helm uninstall", "kubectl delete crd"):
        assert "deleted" in written.run(line).replace("uninstalled", "deleted")
    assert release.kubectl.run("get", "crd", "-o", "name").count("tandem.dev") == 0
    remove(release.kubectl, *(each["metadata"]["name"] for each in monitors))


def test_it_is_installed_without_helm_as_its_readme_says(release: Release, written: Written) -> None:
    assert "deployment.apps/tandem serverside-applied" in written.run("kubectl apply --server-side -k")

    release.establish_definition()
    wait_until("the pods of the operator", release.has_pods, timeout=60)
    release.kubectl.run("delete", "-k", str(ROOT / "manifests"), "--wait=false")
    release.kubectl.run("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=60s")
