# SPDX-License-Identifier: Apache-2.0
"""The two replicas of the operator: processes behind proxies of their own, started anew when they end or aren't well."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from e2e.chaos.operator.proxy import Proxy
from e2e.cluster.local import processes
from e2e.suite.operator_process import OperatorProcess, start_operator

LEASE = "chaos-operator"
LEASE_DURATION = 3.0
"""Seconds, as `start_operator` sets it."""
SETTINGS = {"watch_timeout": "20", "watch_grace": "10", "request_timeout": "10"}
"""Shorter than usual, so that what takes minutes can be seen in less. A resource is looked at without reason every five minutes at the
earliest, as usual: nothing of what is waited for comes by that."""
_UNWELL_FOR = 6.0
"""Seconds after which one that was well is started anew: three looks of a kubelet, each sooner than usual."""


class Replica:
    """One.

    Args:
        proxy: by which it reaches the API server.
        kubeconfig: with the operator's rights; a copy that leads to the proxy is written beside it.
        mark: finds its processes again, should this one be killed.
    """

    def __init__(self, proxy: Proxy, kubeconfig: Path, mark: Path) -> None:
        self.proxy = proxy
        self.is_frozen = False
        self.anew = 0
        """How often it was started anew because it had ended or wasn't well."""
        self.ends: list[float] = []
        """When its processes ended."""
        self._kubeconfig = kubeconfig.with_name(f"{proxy.name}.kubeconfig")
        self._mark = mark
        self._incarnation = 0
        self._process: OperatorProcess | None = None
        self._well_at: float | None = None
        self._settings: Mapping[str, str] = {}
        self._environment: Mapping[str, str] = {}
        config = yaml.safe_load(kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": proxy.url}
        self._kubeconfig.touch(mode=0o600)
        self._kubeconfig.write_text(yaml.safe_dump(config))

    def start(self, settings: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None) -> None:
        """Start its process, which must not run."""
        self._incarnation += 1
        self._settings, self._environment = settings or {}, environment or {}
        marks = {processes.STATE_MARK: str(self._mark), processes.NAME_MARK: "operator"}
        self._well_at = None
        identity = f"{self.proxy.name}-{self._incarnation}"
        self._process = start_operator(
            self._kubeconfig, LEASE, identity, {**SETTINGS, **self._settings}, {**self._environment, **marks}
        )

    def leads(self) -> bool:
        """Whether it says so."""
        return self._answers() and self._running.leads()

    def is_ready(self) -> bool:
        """Whether it says so."""
        return self._answers() and self._running.is_ready()

    def metric(self, name: str, **labels: str) -> float:
        """As it counts now; from 0 when it is started anew."""
        return self._running.metric(name, **labels) if self._answers() else 0.0

    def has_said(self, event: str) -> bool:
        """Whether its process has logged this."""
        return any(line["event"] == event for line in self._running.events())

    def kill(self) -> None:
        """End it as a node that loses its power does."""
        if self._process is not None:
            self._process.kill()
            self.ends.append(time.monotonic())
        self._process, self.is_frozen = None, False

    def stop(self) -> None:
        """End it as Kubernetes does."""
        self._running.stop()
        self.ends.append(time.monotonic())
        self._process = None

    def freeze(self) -> None:
        """Stop it in whatever it is at."""
        self.is_frozen = True
        os.kill(self._running.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        if self._process is not None and self.is_frozen:
            os.kill(self._process.pid, signal.SIGCONT)
        self.is_frozen = False

    def tend(self) -> None:
        """Start it anew if it runs and shouldn't be left as it is."""
        if self._process is None or self.is_frozen:
            return
        now = time.monotonic()
        if not self._process.has_ended:
            if self._process.is_healthy():
                self._well_at = now
            if self._well_at is None or now - self._well_at < _UNWELL_FOR:
                return
        self.kill()
        self.anew += 1
        self.start(self._settings, self._environment)

    @property
    def _running(self) -> OperatorProcess:
        assert self._process is not None
        return self._process

    def _answers(self) -> bool:
        return self._process is not None and not self.is_frozen and not self._process.has_ended


class Replicas:
    """Both.

    Args:
        replicas: which two.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.all = replicas

    def leader(self) -> Replica | None:
        """Who leads, if there is one."""
        return next((each for each in self.all if each.leads()), None)

    def other(self, than: Replica) -> Replica:
        """The other one."""
        return next(each for each in self.all if each is not than)

    def tend(self) -> None:
        """Start anew whichever must be."""
        for each in self.all:
            each.tend()

    def end(self) -> None:
        """Kill both."""
        for each in self.all:
            each.thaw()
            each.kill()
