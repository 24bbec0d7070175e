# SPDX-License-Identifier: Apache-2.0
"""Decode engines in pods behind a front door in pods: who serves whom, what the front door knows, and what can be done to them."""

import json
import signal
from collections.abc import Iterable, Mapping

from e2e.cluster.progress import wait_until
from e2e.exchange.numbers import value_of
from e2e.front_door.containers import signal_container
from e2e.front_door.stand_ins import ask
from e2e.installation import ENGINE_PORT, engine_pods
from e2e.kubectl import Kubectl, KubectlError, Manifest
from tandem_connector.contract.types import Role
from tandem_operator.api.names import FRONT_DOOR_METRICS_PORT, FRONT_DOOR_PORT, FRONT_DOOR_ROLE
from tandem_operator.plan.revision import ENGINE_CONTAINER

COMPUTES = "EngineCore"
"""In the title of the process that computes, without which vLLM's server answers 500 until it has noticed, and ends."""
_COUNTED_WITHIN = 30.0
"""Seconds after an answer."""
_TRIES = 20
"""Sessions for each one that is wanted of an engine."""


class Engines:
    """The decode engines of one resource."""

    def __init__(self, kubectl: Kubectl, resource: str) -> None:
        """Those that there are at any time.

        Args:
            kubectl: of the resource's namespace.
            resource: its name.
        """
        self._kubectl = kubectl
        self._resource = resource

    def names(self) -> set[str]:
        """Of their pods."""
        return {pod["metadata"]["name"] for pod in engine_pods(self._kubectl, self._resource, Role.DECODE)}

    def address(self, name: str) -> str:
        """The pod's."""
        address: str = self._pod(name)["status"]["podIP"]
        return address

    def signal(self, name: str, number: signal.Signals, named: str = "") -> None:
        """Send a signal to all processes of this engine, or to those with such a title."""
        assert signal_container(self._pod(name), ENGINE_CONTAINER, number, named), f"{name} has no process {named}"

    def restarts(self, name: str) -> int:
        """How often its container was started again."""
        return sum(each["restartCount"] for each in self._pod(name)["status"].get("containerStatuses", ()))

    def who_serve(self, url: str, sessions: Iterable[str]) -> dict[str, str]:
        """By session, the pod that its turn went to, while nobody else asks.

        Raises:
            httpx.HTTPStatusError: the front door refused.
            GaveUpError: none counts the turn.
        """
        before = self.answered()
        found: dict[str, str] = {}
        for session in sessions:
            ask(url, session).raise_for_status()
            found[session], before = wait_until("the turn to be counted", lambda: self._more(before), _COUNTED_WITHIN)  # noqa: B023 -- before the next
        return found

    def sessions_of_each(self, url: str, wanted: int) -> Mapping[str, str]:
        """So many sessions of each engine, and which one it is.

        Raises:
            AssertionError: an engine gets too few.
        """
        names = self.names()
        found: dict[str, str] = {}
        for number in range(_TRIES * wanted):
            for session, name in self.who_serve(url, [f"session-{number}"]).items():
                if list(found.values()).count(name) < wanted:
                    found[session] = name
            if len(found) == len(names) * wanted:
                return found
        raise AssertionError(f"an engine gets fewer than {wanted} of {_TRIES * wanted} sessions: {found}")

    def answered(self) -> dict[str, float]:
        """By the names of their pods, how many requests each has answered."""
        return {
            name: value_of(self._kubectl.pod_http(name, ENGINE_PORT, "/metrics"), "vllm:request_success_total")
            for name in self.names()
        }

    def _more(self, before: Mapping[str, float]) -> tuple[str, dict[str, float]] | None:
        """Who has answered one more, and how many each has."""
        now = self.answered()
        return next(((name, now) for name, answered in now.items() if answered > before.get(name, 0.0)), None)

    def _pod(self, name: str) -> Manifest:
        manifest: Manifest = json.loads(self._kubectl.run("get", "pod", name, "-o", "json"))
        return manifest


class Routers:
    """The replicas of vllm-router of one resource."""

    def __init__(self, kubectl: Kubectl, resource: str) -> None:
        """Those that there are at any time.

        Args:
            kubectl: of the resource's namespace.
            resource: its name.
        """
        self._kubectl = kubectl
        self._selector = f"tandem.dev/resource={resource},tandem.dev/role={FRONT_DOOR_ROLE}"

    def names(self) -> set[str]:
        """Of their pods, but those that are being deleted."""
        pods = self._kubectl.list("pods", self._selector)
        return {pod["metadata"]["name"] for pod in pods if not pod["metadata"].get("deletionTimestamp")}

    def use(self, engines: int, *, replicas: int) -> bool:
        """Whether there are so many replicas, each of which takes so many engines for well."""
        return [self._in_use(name) for name in self.names()] == [engines] * replicas

    def retries(self) -> int:
        """How often they tried a request again."""
        texts = (self._kubectl.pod_http(name, FRONT_DOOR_METRICS_PORT, "/metrics") for name in self.names())
        return int(sum(value_of(text, "vllm_router_retries_total") for text in texts))

    def _in_use(self, name: str) -> int:
        try:
            said = json.loads(self._kubectl.pod_http(name, FRONT_DOOR_PORT, "/readiness"))
        except KubectlError:
            return 0  # It isn't ready, or not there yet.
        return int(said.get("healthy_workers", 0))
