# SPDX-License-Identifier: Apache-2.0
"""`manifests/samples/nginx-front-door.yaml` in a cluster: its pods, and what they say."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml

from e2e.front_door.nginx import SAMPLE, known, retries, turns
from e2e.images.catalogue import NGINX
from e2e.kubectl import Kubectl
from tandem_operator.api.names import routable_name

_NAME = "nginx-front-door"
_SELECTOR = f"app.kubernetes.io/name={_NAME}"


class NginxPods:
    """Those of one namespace."""

    service = _NAME
    """The Service that leads to them."""

    def __init__(self, kubectl: Kubectl) -> None:
        """They need not be there yet.

        Args:
            kubectl: of the namespace.
        """
        self._kubectl = kubectl

    @contextmanager
    def applied(self, resource: str) -> Iterator[None]:
        """The sample, for this resource and with this project's image, is applied, and its pods are ready.

        Raises:
            KubectlError: they don't become ready.
        """
        manifests = _sample(resource)
        self._kubectl.apply(*manifests)
        try:
            self._kubectl.run("rollout", "status", f"deployment/{_NAME}", "--timeout=120s", timeout=150.0)
            yield
        finally:
            for each in manifests:
                self._kubectl.delete(each["kind"], _NAME, "--wait=false")
            # They wait for answers that are under way.
            self._kubectl.run("delete", "pods", "-l", _SELECTOR, "--ignore-not-found", "--force", "--grace-period=0")

    def all_know(self, engines: int) -> bool:
        """Whether each was last told of so many engines."""
        return all(len(known(log)) == engines for log in self._logs())

    def retries(self) -> int:
        """How often another engine was asked for a turn."""
        return sum(map(retries, self._logs()))

    def served(self) -> Mapping[str, set[str]]:
        """By session, the addresses of the engines whose answers were passed on."""
        found: dict[str, set[str]] = {}
        for log in self._logs():
            for turn in turns(log):
                found.setdefault(turn.session, set()).add(turn.engines[-1])
        return found

    def _logs(self) -> list[list[str]]:
        pods = self._kubectl.list("pods", _SELECTOR)
        return [self._kubectl.run("logs", pod["metadata"]["name"]).splitlines() for pod in pods]


def _sample(resource: str) -> list[dict[str, Any]]:
    manifests: list[dict[str, Any]] = list(yaml.safe_load_all(SAMPLE.read_text()))
    (container,) = next(
        each["spec"]["template"]["spec"]["containers"] for each in manifests if each["kind"] == "Deployment"
    )
    container["image"] = NGINX.reference
    container["env"] = [{"name": "ENGINES", "value": routable_name(resource)}]
    return manifests
