# SPDX-License-Identifier: Apache-2.0
"""What the cluster itself asks of its API server, through kubectl."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from e2e.cluster.interface import ClusterError


class Administrator:
    """Runs kubectl with all rights.

    Args:
        kubectl: The words that start it.
    """

    def __init__(self, kubectl: Sequence[str]) -> None:
        self._kubectl = kubectl

    def create(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Create the objects, none of which may be there.

        Raises:
            ClusterError: The API server refused.
        """
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self._run("create", "--filename=-", stdin=json.dumps(listed))

    def delete(self, kind: str, names: Iterable[str]) -> None:
        """Delete objects without a namespace.

        Raises:
            ClusterError: The API server refused.
        """
        self._run("delete", kind, *names)

    def has(self, kind: str, name: str, namespace: str = "default") -> bool:
        """Whether there is such an object, and an API server to say so."""
        argv = [*self._kubectl, "get", kind, name, f"--namespace={namespace}"]
        return not subprocess.run(argv, capture_output=True, check=False).returncode

    def _run(self, *arguments: str, stdin: str = "") -> None:
        done = subprocess.run([*self._kubectl, *arguments], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
