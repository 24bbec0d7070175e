# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of this machine, with the rights of its table and nothing more."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl, Manifest
from tandem_operator.kube.permissions import RULES

ACCOUNT_NAMESPACE = "default"


def rights(account: str, rules: Iterable[Mapping[str, Any]] | None = None) -> list[Manifest]:
    """A service account and what gives it these rights, cluster-wide; default: those in the operator's table. The last binds them."""
    role: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": ACCOUNT_NAMESPACE}},
        {**role, "metadata": {"name": account}, "rules": list(rules or (rule.manifest() for rule in RULES))},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": ACCOUNT_NAMESPACE}],
        },
    ]


def write_kubeconfig(
    cluster: Cluster, account: str, path: Path, rules: Iterable[Mapping[str, Any]] | None = None
) -> Path:
    """A kubeconfig for a new service account with `rights`."""
    Kubectl(cluster, ACCOUNT_NAMESPACE).apply(*rights(account, rules))
    return write_kubeconfig_of(cluster, account, ACCOUNT_NAMESPACE, path)


def write_kubeconfig_of(cluster: Cluster, account: str, namespace: str, path: Path) -> Path:
    """A kubeconfig for a service account that is there."""
    kubectl = Kubectl(cluster, namespace)
    config = yaml.safe_load(kubectl.run("config", "view", "--raw", "--minify", "--flatten"))
    token = kubectl.run("create", "token", account, "--duration=24h").strip()
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


class OperatorProcess:
    """One replica."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, identity: str) -> None:
        self._process = process
        self._log = log
        self._port: int | None = None
        self.identity = identity

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def is_ready(self) -> bool:
        """Whether it says so itself."""
        return self._ask("/readyz") is not None

    def is_healthy(self) -> bool:
        """Whether it says so itself."""
        return self._ask("/healthz") is not None

    def leads(self) -> bool:
        """Whether it is the replica that works."""
        return self.metric("tandem_leader") == 1

    def metric(self, name: str, **labels: str) -> float:
        """Sum of all its samples of this name whose labels include these; 0 without any."""
        return sum(
            sample.value for sample in self.samples() if sample.name == name and labels.items() <= sample.labels.items()
        )

    def samples(self) -> list[Sample]:
        """All of its metrics, as they are now."""
        text = self._ask("/metrics") or ""
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def kill(self) -> None:
        """End it as a node that loses its power does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End it as Kubernetes does; the exit status."""
        self._process.terminate()
        return self._process.wait(timeout=20)

    def events(self) -> list[dict[str, Any]]:
        """Its log lines."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def memory(self) -> int:
        """Resident bytes."""
        return int(self.metric("process_resident_memory_bytes"))

    def _ask(self, path: str) -> str | None:
        if self._port is None:
            self._port = next((line["port"] for line in self.events() if line["event"] == "serving"), None)
        if self._port is None:
            assert self._process.poll() is None, self._log.read_text()
            return None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, TimeoutError):
            return None


def start_operator(
    kubeconfig: Path, lease: str, identity: str, settings: Mapping[str, str], more: Mapping[str, str] | None = None
) -> OperatorProcess:
    """A replica that isn't ready yet. Its Lease's times are a fifth of the usual ones.

    Args:
        kubeconfig: its rights; its log is beside that.
        lease: the Lease's name.
        identity: its name in the Lease.
        settings: of its own, instead of the usual ones.
        more: of its environment.
    """
    log = kubeconfig.with_name(f"{lease}-{identity}.log")
    environment = {
        "TANDEM_KUBECONFIG": str(kubeconfig),
        "TANDEM_HTTP_HOST": "127.0.0.1",
        "TANDEM_HTTP_PORT": "0",
        "TANDEM_IDENTITY": identity,
        "TANDEM_LEASE_NAME": lease,
        "TANDEM_LEASE_NAMESPACE": ACCOUNT_NAMESPACE,
        "TANDEM_LEASE_DURATION": "3",
        "TANDEM_LEASE_RENEW_DEADLINE": "2",
        "TANDEM_LEASE_RETRY": "0.4",
        **{f"TANDEM_{name.upper()}": value for name, value in settings.items()},
        **(more or {}),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tandem_operator", "run"], env={**os.environ, **environment}, stderr=output
        )
    return OperatorProcess(process, log, identity)


@contextmanager
def operator(kubeconfig: Path, lease: str, identity: str, **settings: str) -> Iterator[OperatorProcess]:
    """A replica that is ready, ended afterwards."""
    replica = start_operator(kubeconfig, lease, identity, settings)
    try:
        wait_until(f"replica {identity} to be ready", replica.is_ready, timeout=60)
        yield replica
    finally:
        if not replica.has_ended:
            replica.stop()
