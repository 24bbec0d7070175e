# SPDX-License-Identifier: Apache-2.0
"""The chart on a real API server with controllers, but without nodes: what Helm makes, changes and leaves."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.local.cluster import LocalCluster
from e2e.cluster.local.state import Profile
from e2e.cluster.progress import wait_until
from e2e.cluster.tools import run_helm
from e2e.kubectl import Kubectl
from e2e.suite.refusals import BASE
from tandem_operator.api.crd import DEFINITIONS, RESOURCE, SCALER

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(1800)]  # The first test may have to build Kubernetes.

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "tandem"
NAMESPACE = "tandem-system"
CRD = RESOURCE.name
CRDS = [each.name for each in DEFINITIONS]
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:tandem"


class Release:
    """The release `tandem` on a cluster, and the cluster as its administrator sees it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.kubectl = Kubectl(cluster, NAMESPACE)

    def install(self, *settings: str, chart: Path = CHART) -> None:
        self.helm("install", "tandem", str(chart), "--create-namespace", *_set(settings))

    def upgrade(self, *settings: str) -> None:
        self.helm("upgrade", "tandem", str(CHART), *_set(settings))

    def uninstall(self) -> None:
        self.helm("uninstall", "tandem", "--ignore-not-found", "--wait")

    def helm(self, *arguments: str) -> None:
        done = run_helm(self._cluster.kubeconfig, NAMESPACE, *arguments)
        assert done.returncode == 0, done.stderr

    def allows(self, who: str, verb: str, what: str, namespace: str, subresource: str = "") -> bool:
        """Whether the API server would let the user do this."""
        question = ["auth", "can-i", verb, what, "--subresource", subresource, "--as", who, "--namespace", namespace]
        done = subprocess.run([*self._cluster.kubectl, *question], capture_output=True, text=True, check=False)
        assert done.stdout.strip() in {"yes", "no"}, done.stderr
        return done.stdout.strip() == "yes"

    def establish_definition(self) -> None:
        self.kubectl.run("wait", "--for=condition=Established", *(f"crd/{name}" for name in CRDS), "--timeout=30s")


def _set(settings: tuple[str, ...]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of its own: the definition comes and goes here, which others could not bear."""
    if sys.platform != "linux":
        pytest.skip("the local control plane runs on Linux only")
    if os.environ.get("CLUSTER", "local") not in {"", "local"}:
        pytest.skip("tests of the chart bring their own control plane, which CLUSTER does not name")
    cluster = LocalCluster(tmp_path_factory.mktemp("chart") / "state", Profile.CONTROL_PLANE)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


@pytest.fixture
def release(cluster: Cluster) -> Release:
    """Nothing of the chart is there."""
    release = Release(cluster)
    release.uninstall()
    release.kubectl.run("delete", "crd", *CRDS, "--ignore-not-found")
    return release


def _pods_made(release: Release) -> bool:
    return len(release.kubectl.list("pods", "app.kubernetes.io/name=tandem")) == 2


def test_the_operators_pods_are_let_in_where_only_restricted_ones_are(release: Release) -> None:
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    release.kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}}
    )

    release.install()

    wait_until("the pods of the operator", lambda: _pods_made(release), timeout=60)


def test_a_resource_can_be_made_right_after_the_installation(release: Release) -> None:
    release.install()
    release.establish_definition()

    release.kubectl.apply(BASE)

    table = release.kubectl.run("get", "tandem", "-o", "wide").splitlines()
    assert table[0].split() == ["NAME", "READY", "PREFILL", "DECODE", "VERIFIED", "MODEL", "AGE"]
    assert table[1].split()[:2] == ["disaggregatedinference.tandem.dev/crd-rules", "Qwen/Qwen3-32B"]


def test_the_operators_account_may_do_in_all_namespaces_what_it_needs(release: Release) -> None:
    release.install()

    assert release.allows(ACCOUNT, "patch", "statefulsets.apps", "default")
    assert release.allows(ACCOUNT, "patch", CRD, "default", subresource="status")
    assert not release.allows(ACCOUNT, "update", CRD, "default")
    assert not release.allows(ACCOUNT, "get", "secrets", "default")
    assert release.allows(ACCOUNT, "update", "leases.coordination.k8s.io/tandem", NAMESPACE)
    assert not release.allows(ACCOUNT, "update", "leases.coordination.k8s.io/other", NAMESPACE)


def test_the_operators_account_may_do_in_named_namespaces_only_what_it_needs(release: Release) -> None:
    for name in ("team-a", "team-b"):
        release.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    release.install("watch.namespaces={team-a,team-b}")

    assert release.allows(ACCOUNT, "patch", "statefulsets.apps", "team-a")
    assert release.allows(ACCOUNT, "patch", "statefulsets.apps", "team-b")
    assert not release.allows(ACCOUNT, "patch", "statefulsets.apps", "default")
    assert not release.allows(ACCOUNT, "list", "pods", "default")
    assert release.allows(ACCOUNT, "watch", "nodes", "default")


def test_an_editor_of_a_namespace_may_edit_resources_in_it_and_a_viewer_may_see_them(release: Release) -> None:
    release.install()
    release.establish_definition()
    for user, role in (("jane", "edit"), ("joe", "view")):
        release.kubectl.run("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}", "-n", "default")

    # The API server adds aggregated rules a moment later.
    wait_until("aggregated rules", lambda: release.allows("jane", "create", CRD, "default"), timeout=30)
    wait_until("aggregated rules", lambda: release.allows("joe", "watch", CRD, "default"), timeout=30)
    assert release.allows("jane", "update", SCALER.name, "default", "scale")
    assert not release.allows("jane", "create", SCALER.name, "default")
    assert not release.allows("joe", "update", SCALER.name, "default", "scale")
    assert not release.allows("joe", "create", CRD, "default")
    assert not release.allows("jane", "create", CRD, NAMESPACE)


def test_an_upgrade_changes_the_operator_and_the_definition(release: Release, tmp_path: Path) -> None:
    older = shutil.copytree(CHART, tmp_path / "older chart")
    crds = older / "templates" / "crds.yaml"
    crds.write_text(crds.read_text().replace("- pdi\n", "- older\n"))
    release.install(chart=older)

    release.upgrade("settings.workers=8")

    deployment = release.kubectl.get("deployment", "tandem")
    assert deployment
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "TANDEM_WORKERS", "value": "8"} in container["env"]
    definition = release.kubectl.get("crd", CRD)
    assert definition
    assert definition["spec"]["names"]["shortNames"] == ["pdi"]


def test_a_rollback_brings_back_the_operator_and_the_definition_as_they_were(release: Release, tmp_path: Path) -> None:
    older = shutil.copytree(CHART, tmp_path / "older chart")
    crds = older / "templates" / "crds.yaml"
    crds.write_text(crds.read_text().replace("- pdi\n", "- older\n"))
    release.install("settings.workers=7", chart=older)
    release.establish_definition()
    release.kubectl.apply(BASE)
    release.upgrade("settings.workers=8", "replicas=1")
    assert release.kubectl.get("pdb", "tandem") is None

    release.helm("rollback", "tandem", "1")

    deployment = release.kubectl.get("deployment", "tandem")
    assert deployment
    assert deployment["spec"]["replicas"] == 2
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "TANDEM_WORKERS", "value": "7"} in container["env"]
    assert release.kubectl.get("pdb", "tandem")
    definition = release.kubectl.get("crd", CRD)
    assert definition
    assert definition["spec"]["names"]["shortNames"] == ["older"]
    assert release.kubectl.get(CRD, "crd-rules"), "resources outlive upgrade and rollback"


def test_uninstalling_keeps_the_definition_with_its_resources_and_a_new_installation_takes_them_over(
    release: Release,
) -> None:
    release.install()
    release.establish_definition()
    release.kubectl.apply(BASE)

    release.uninstall()

    assert release.kubectl.get("deployment", "tandem") is None
    assert release.kubectl.get(CRD, "crd-rules")
    release.install()
    assert release.kubectl.get(CRD, "crd-rules")


def test_uninstalling_takes_the_definition_along_when_told_so(release: Release) -> None:
    release.install("crds.keep=false")

    release.uninstall()

    wait_until("the end of the definitions", lambda: all(release.kubectl.get("crd", name) is None for name in CRDS), 30)


def test_nothing_else_is_left_after_uninstalling(release: Release) -> None:
    kinds = (
        "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,pdb,networkpolicies"
    )
    release.install("networkPolicy.enabled=true")
    made = json.loads(release.kubectl.run("get", kinds, "-A", "-l", "app.kubernetes.io/name=tandem", "-o", "json"))

    release.uninstall()

    assert len(made["items"]) == 13
    left = json.loads(release.kubectl.run("get", kinds, "-A", "-l", "app.kubernetes.io/name=tandem", "-o", "json"))
    assert left["items"] == []


@pytest.mark.parametrize(
    "command",
    [
        ("apply", "--server-side", "-f", str(ROOT / "manifests" / "install.yaml")),
        ("apply", "-k", str(ROOT / "manifests")),
    ],
    ids=["the file", "kustomize"],
)
def test_the_plain_install_can_be_applied_and_deleted(release: Release, command: tuple[str, ...]) -> None:
    release.kubectl.run(*command)

    release.establish_definition()
    wait_until("the pods of the operator", lambda: _pods_made(release), timeout=60)
    release.kubectl.run("delete", *command[-2:], "--wait=false")
    release.kubectl.run("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=60s")


@pytest.mark.parametrize("sample", sorted((ROOT / "manifests" / "samples").glob("*.yaml")), ids=lambda path: path.name)
def test_a_sample_is_a_valid_resource_without_an_unknown_field(release: Release, sample: Path) -> None:
    release.install()
    release.establish_definition()

    release.kubectl.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(sample))
