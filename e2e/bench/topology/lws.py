# SPDX-License-Identifier: Apache-2.0
"""LeaderWorkerSet's controllers, with DisaggregatedSet, as a process of this machine with the rights of their own manifests.

In a cluster their webhooks are reached through a Service. Here nothing runs in pods, so the API server is given their address
on this machine, and a certificate of an authority of our own in place of the one that they would make for the Service.
"""

import json
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.bench.topology.fleet import Member
from e2e.cluster.binary import build_lws, lws_manifests
from e2e.cluster.interface import Cluster
from e2e.cluster.local.endpoints import LOOPBACK, free_port
from e2e.cluster.local.pki import Authority
from e2e.cluster.progress import wait_until
from e2e.definitions import wait_until_established
from e2e.kubectl import Kubectl, KubectlError
from e2e.suite.operator_process import write_kubeconfig
from tandem_connector.contract.types import Role

NAMESPACE: Final = "lws-system"
"""Where they take themselves to run when they don't run in a pod."""
API_VERSION: Final = "disaggregatedset.x-k8s.io/v1"
PATH: Final = f"/apis/{API_VERSION}"
SETS_PATH: Final = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"
POD_LABEL: Final = "leaderworkerset.sigs.k8s.io/name"

_ONLY_THEIR_PODS: Final = {"matchExpressions": [{"key": POD_LABEL, "operator": "Exists"}]}


def disaggregated_set(member: Member) -> dict[str, Any]:
    """The same engines as the member's, in groups of one pod each."""

    def role(of: Role, replicas: int) -> dict[str, Any]:
        template = {"size": 1, "workerTemplate": member.template(of)}
        return {"name": str(of), "spec": {"replicas": replicas, "leaderWorkerTemplate": template}}

    return {
        "apiVersion": API_VERSION,
        "kind": "DisaggregatedSet",
        "metadata": {"name": member.name, "namespace": member.manifest["metadata"]["namespace"]},
        "spec": {"roles": [role(Role.PREFILL, member.prefill), role(Role.DECODE, member.decode)]},
    }


@contextmanager
def controllers(cluster: Cluster, folder: Path, sample: Member) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which leads and takes DisaggregatedSets; ended afterwards.

    Args:
        cluster: gets CRDs, rights and webhooks.
        folder: for its files.
        sample: of what it is to take.
    """
    manifests = lws_manifests()
    kubectl = Kubectl(cluster, NAMESPACE)
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    crds = [_read(path)[0] for path in sorted((manifests / "crd" / "bases").glob("*.yaml"))]
    kubectl.apply(*crds)
    wait_until_established(kubectl, *(each["metadata"]["name"] for each in crds))
    rules = [rule for name in ("role", "leader_election_role") for rule in _rules(manifests / "rbac" / f"{name}.yaml")]
    kubeconfig = write_kubeconfig(cluster, "lws", folder / "lws-kubeconfig", rules)
    authority, port = Authority.new(), free_port()
    authority.issue("lws", hosts=(LOOPBACK,)).write(folder, "tls")
    kubectl.apply(*_webhooks(manifests, authority, port))
    log = folder / "lws.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                str(build_lws()),
                f"--config={_configuration(folder, port)}",
                f"--kubeconfig={kubeconfig}",
                "--zap-log-level=info",
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until("LeaderWorkerSet's controllers", lambda: _takes(kubectl, sample, process, log), timeout=60)
        yield process
    finally:
        process.terminate()
        process.wait()
        # Their pods' webhooks would be asked for each pod that has their label.
        kinds = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
        names = ("lws-mutating-webhook-configuration", "lws-validating-webhook-configuration")
        kubectl.run("delete", "--ignore-not-found", kinds, *names)


def _takes(kubectl: Kubectl, sample: Member, process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"LeaderWorkerSet's controllers have ended:\n{log.read_text()[-3000:]}")
    if not kubectl.list("lease"):
        return False
    try:
        kubectl.run(
            *("create", "--namespace", sample.manifest["metadata"]["namespace"], "--dry-run=server", "-f", "-"),
            stdin=json.dumps(disaggregated_set(sample)),
        )
    except KubectlError:
        return False
    return True


def _configuration(folder: Path, port: int) -> Path:
    path = folder / "lws.yaml"
    configuration = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": LOOPBACK, "port": port, "certDir": str(folder)},
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:0"},
        "metrics": {"bindAddress": "0"},
    }
    path.write_text(json.dumps(configuration))
    return path


def _webhooks(manifests: Path, authority: Authority, port: int) -> Iterator[dict[str, Any]]:
    """As the module's own overlay has them, but for the address."""
    for manifest in _read(manifests / "webhook" / "manifests.yaml"):
        manifest["metadata"]["name"] = f"lws-{manifest['metadata']['name']}"
        for webhook in manifest["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            bundle = b64encode(authority.certificate).decode()
            webhook["clientConfig"] = {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": bundle}
            if path.endswith("-v1-pod"):
                webhook["objectSelector"] = _ONLY_THEIR_PODS
        yield manifest


def _rules(path: Path) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = _read(path)[0]["rules"]
    return rules


def _read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))
