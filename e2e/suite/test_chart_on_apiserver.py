# SPDX-License-Identifier: Apache-2.0
"""The chart on a real API server with controllers, but without nodes: what Helm makes, changes and leaves."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.definitions import wait_until_established, wait_until_gone
from e2e.suite.chart_release import CHART, CRDS, NAMESPACE, Release, ReleaseError, own_control_plane
from e2e.suite.earlier import earlier_sources
from e2e.suite.operator_process import OperatorProcess, start_operator, write_kubeconfig_of
from e2e.suite.refusals import BASE
from tandem_operator.api.crd import RESOURCE, SCALER
from tandem_operator.api.names import engines_policy_name

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(1800)]  # The first test may have to build Kubernetes.

ROOT = Path(__file__).parents[2]
CRD = RESOURCE.name
POLICY = engines_policy_name("crd-rules")
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:tandem"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from own_control_plane(tmp_path_factory.mktemp("chart"))


@pytest.fixture
def release(cluster: Cluster) -> Release:
    """Nothing of the chart is there."""
    release = Release(cluster)
    release.remove_all()
    return release


def test_the_operators_pods_are_let_in_where_only_restricted_ones_are(release: Release) -> None:
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    release.kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}}
    )

    release.install()

    wait_until("the pods of the operator", release.has_pods, timeout=60)


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
    # `kubectl tandem verify` asks by an annotation.
    assert release.allows("jane", "patch", CRD, "default")
    assert not release.allows("joe", "patch", CRD, "default")
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


@contextmanager
def served(release: Release, sources: Path, folder: Path, identity: str) -> Iterator[OperatorProcess]:
    """The operator of these sources, with the rights of the release's account, once it has looked at the resource."""
    kubeconfig = write_kubeconfig_of(release.cluster, "tandem", NAMESPACE, folder / f"{identity}.kubeconfig")
    path = os.pathsep.join(str(sources / part / "src") for part in ("operator", "connector"))
    more = {"PYTHONPATH": path, "TANDEM_LEASE_NAMESPACE": NAMESPACE}
    replica = start_operator(kubeconfig, "tandem", identity, {}, more)
    try:
        wait_until(
            f"{identity} to reconcile", lambda: replica.metric("tandem_reconcile_duration_seconds_count") > 0, 60
        )
        yield replica
    finally:
        if not replica.has_ended:
            replica.stop()


def has_all_rights(replica: OperatorProcess) -> bool:
    """Whether nothing was refused to it, so far."""
    return replica.metric("tandem_api_errors_total", status="403") == 0


def as_made(release: Release) -> dict[str, Any]:
    """What of the resource is the user's, which no upgrade may touch."""
    live = release.kubectl.get(CRD, "crd-rules")
    assert live
    assert live["status"]["observedGeneration"] == live["metadata"]["generation"]
    assert {each["type"] for each in live["status"]["conditions"]} >= {"Ready", "SpecValid"}
    kept = ("uid", "generation", "creationTimestamp")
    return {"spec": live["spec"], **{key: live["metadata"][key] for key in kept}}


@pytest.mark.long  # Three operators start.
def test_a_resource_lives_through_an_upgrade_from_an_earlier_version_and_back(release: Release, tmp_path: Path) -> None:
    earlier = earlier_sources(tmp_path / "earlier")
    release.install(chart=earlier / "charts" / "tandem")
    wait_until_established(release.kubectl, CRD)
    assert release.kubectl.get("crd", SCALER.name) is None, "the earlier version knew no scalers"
    release.kubectl.apply(BASE)
    with served(release, earlier, tmp_path, "earlier") as replica:
        made = as_made(release)
        assert has_all_rights(replica)

    release.upgrade()
    release.establish_definition()
    assert as_made(release) == made
    with served(release, ROOT, tmp_path, "new") as replica:
        wait_until("a scaler", lambda: release.kubectl.get(SCALER.name, "crd-rules-decode") is not None, 60)
        wait_until("a policy", lambda: release.kubectl.get("networkpolicy", POLICY) is not None, 60)
        assert as_made(release) == made
        assert has_all_rights(replica)
    newer = '{"spec": {"verification": {"enabled": false}}}'
    release.kubectl.run("patch", CRD, "crd-rules", "--type=merge", "-p", newer)

    release.helm("rollback", "tandem", "1")
    assert not release.allows(ACCOUNT, "patch", "networkpolicies.networking.k8s.io", "default")
    with served(release, earlier, tmp_path, "back") as replica:
        back = as_made(release)
        assert has_all_rights(replica)
    assert back["uid"] == made["uid"]
    assert release.kubectl.get(SCALER.name, "crd-rules-decode"), "what only the newer version knows stays"
    assert release.kubectl.get("networkpolicy", POLICY)
    assert back["spec"] == made["spec"], "the older definition doesn't know the newer field"


def test_an_upgrade_that_reuses_an_earlier_versions_values_must_take_new_defaults(
    release: Release, tmp_path: Path
) -> None:
    release.install("settings.workers=7", chart=earlier_sources(tmp_path) / "charts" / "tandem")

    with pytest.raises(ReleaseError, match="nil pointer"):
        release.upgrade(options=("--reuse-values",))
    release.upgrade(options=("--reset-then-reuse-values",))

    deployment = release.kubectl.get("deployment", "tandem")
    assert deployment
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "TANDEM_WORKERS", "value": "7"} in container["env"]


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

    release.helm("uninstall", "tandem")

    wait_until_gone(release.kubectl, *CRDS)


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


def test_the_engines_priority_class_outlives_the_release_and_keeps_its_value(release: Release) -> None:
    made = ("priorityClass.create=true", "enginePriorityClass.create=true")
    release.install(*made)

    with pytest.raises(ReleaseError, match=r"value: Forbidden: may not be changed in an update"):
        release.upgrade(*made, "enginePriorityClass.value=7")
    release.uninstall()

    assert release.kubectl.get("priorityclass", "tandem") is None
    assert release.kubectl.get("priorityclass", "tandem-engines")
    release.kubectl.delete("priorityclass", "tandem-engines")


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
    wait_until("the pods of the operator", release.has_pods, timeout=60)
    release.kubectl.run("delete", *command[-2:], "--wait=false")
    release.kubectl.run("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=60s")


@pytest.mark.parametrize("sample", sorted((ROOT / "manifests" / "samples").glob("*.yaml")), ids=lambda path: path.name)
def test_a_sample_is_a_valid_resource_without_an_unknown_field(release: Release, sample: Path) -> None:
    release.install()
    release.establish_definition()

    release.kubectl.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(sample))
