# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the installation of Tandem itself, and with namespaces that its engines are to run in."""

from collections.abc import Iterator

from tandem_operator.api.accelerators import profile_of
from tandem_operator.api.crd import DEFINITIONS
from tandem_operator.kubectl.views.finding import ClusterSeen, Finding, Severity
from tandem_operator.plan.types import Manifest

_ENFORCED = "pod-security.kubernetes.io/enforce"


def installation_findings(cluster: ClusterSeen) -> Iterator[Finding]:
    """Of definitions, operator and namespaces."""
    yield from _definitions(cluster)
    yield from _operator(cluster)
    yield from _namespaces(cluster)


def _definitions(cluster: ClusterSeen) -> Iterator[Finding]:
    if cluster.definitions is None:
        return
    there = {each["metadata"]["name"]: each for each in cluster.definitions}
    for definition in DEFINITIONS:
        name = f"customresourcedefinition {definition.name}"
        if (found := there.get(definition.name)) is None:
            yield Finding(
                severity=Severity.FAULT,
                subject=name,
                message="it isn't installed",
                remedy="install Tandem's chart with crds.enabled, or apply the files in crds/",
                command="helm upgrade --install tandem charts/tandem --namespace tandem-system --create-namespace",
            )
        elif _schemas(found) != _schemas(definition.manifest()):
            yield Finding(
                severity=Severity.WARNING,
                subject=name,
                message="its schema is of another version than this plugin: fields may be missing, or refused",
                remedy="upgrade the chart and this plugin to one version",
                command="helm list --all-namespaces --filter tandem",
            )


def _schemas(definition: Manifest) -> dict[str, object]:
    return {each["name"]: each.get("schema") for each in definition["spec"]["versions"]}


def _operator(cluster: ClusterSeen) -> Iterator[Finding]:
    if cluster.operators is None:
        return
    if not any((each.get("status") or {}).get("availableReplicas") for each in cluster.operators):
        names = ", ".join(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in cluster.operators)
        yield Finding(
            severity=Severity.FAULT,
            subject="operator",
            message=f"no pod of {names} is available" if names else "no Deployment of it is there",
            remedy="see why its pods don't run" if names else "install Tandem's chart",
            command="kubectl get pods --all-namespaces --selector app.kubernetes.io/name=tandem",
        )


def _namespaces(cluster: ClusterSeen) -> Iterator[Finding]:
    levels = {
        each["metadata"]["name"]: (each["metadata"].get("labels") or {}).get(_ENFORCED)
        for each in cluster.namespaces or ()
    }
    wanting = {
        each["metadata"]["namespace"]
        for each in cluster.resources or ()
        if (profile := profile_of((each["spec"].get("accelerator") or {}).get("instanceType", ""))) and profile.has_efa
    }
    for namespace in sorted(wanting):
        if levels.get(namespace) in {"restricted", "baseline"}:
            yield Finding(
                severity=Severity.FAULT,
                subject=f"namespace {namespace}",
                message=f"it enforces Pod Security {levels[namespace]}, under which engines with EFA (uid 0, IPC_LOCK) are refused",
                remedy="give engines a namespace of their own that enforces privileged",
                command=f"kubectl label namespace {namespace} --overwrite {_ENFORCED}=privileged",
            )
