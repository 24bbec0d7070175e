# SPDX-License-Identifier: Apache-2.0
"""kubectl as the demo and the tests use it."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from e2e.cluster.interface import Cluster

Manifest = Mapping[str, Any]


class KubectlError(Exception):
    """kubectl ended with an error; the text is its own."""


class Kubectl:
    """Runs kubectl against one cluster, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str = "default") -> None:
        self.command = (*cluster.kubectl, "--namespace", namespace)
        """To be followed by kubectl's arguments."""
        self.namespace = namespace

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        """Standard output of `kubectl ARGUMENTS`.

        Raises:
            KubectlError: it failed.
        """
        done = subprocess.run(
            [*self.command, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def apply(self, *manifests: Manifest) -> None:
        """Server-side apply the objects, as a user's `kubectl apply --server-side` does."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(listed))

    def get(self, kind: str, name: str) -> Manifest | None:
        """The object, or None where there is none."""
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def list(self, kind: str, selector: str = "") -> list[Manifest]:
        """All objects of the kind that the label selector matches."""
        items: list[Manifest] = json.loads(self.run("get", kind, "-l", selector, "-o", "json"))["items"]
        return items

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Delete the object; nothing when there is none."""
        self.run("delete", kind, name, "--ignore-not-found", *options)

    def evict(self, pod: str) -> None:
        """Ask the Eviction API to remove the pod, as `kubectl drain` and autoscalers of nodes do.

        Raises:
            KubectlError: a disruption budget doesn't allow it now.
        """
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def pod_http(self, pod: str, port: int, path: str) -> str:
        """Body of a GET on the pod, through the API server, which works wherever the cluster is."""
        return self.run("get", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy{path}")

    @contextmanager
    def forwarded(self, target: str, port: int) -> Iterator[str]:
        """While it lasts, `http://127.0.0.1:...` leads to `port` of `target` (as `service/name`)."""
        with subprocess.Popen(
            [*self.command, "port-forward", target, f":{port}", "--address", "127.0.0.1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not (found := re.search(r"127\.0\.0\.1:(\d+)", line)):
                    raise KubectlError(f"kubectl port-forward {target}: {line.strip() or 'ended without a word'}")
                yield f"http://127.0.0.1:{found.group(1)}"
            finally:
                process.terminate()
