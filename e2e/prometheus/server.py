# SPDX-License-Identifier: Apache-2.0
"""A Prometheus of this machine, asked through its HTTP API.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import math
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from e2e.cluster.local.endpoints import free_port
from e2e.cluster.progress import wait_until
from e2e.prometheus.grafana import MONITORING
from e2e.prometheus.programs import programs

SCRAPE: Final = 1
"""Seconds between two looks, and between two evaluations of the alerts."""
RULES: Final = MONITORING / "alerts.yaml"
_PATIENCE: Final = 30.0
Labels = Mapping[str, str]


class QueryError(Exception):
    """Prometheus refused an expression, or failed with it; the text is its own."""


@dataclass(frozen=True)
class Target:
    """Whose `/metrics` are read."""

    job: str
    address: str
    """HOST:PORT"""
    labels: Labels
    """That the monitor gives it."""


class Prometheus:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=_PATIENCE)
        self.began = time.time()

    def numbers(self, expression: str) -> int:
        """How many numbers there are, in all series, from its start until now, as a graph asks for them.

        Raises:
            QueryError: it can't be answered.
        """
        asked = {"query": expression, "start": self.began, "end": time.time(), "step": SCRAPE}
        series = self._ask("query_range", asked)["result"]
        return sum(not math.isnan(float(value)) for each in series for _, value in each["values"])

    def now(self, expression: str) -> list[Labels]:
        """Labels of the series that there are.

        Raises:
            QueryError: it can't be answered.
        """
        return [each["metric"] for each in self._ask("query", {"query": expression})["result"]]

    def label_values(self, selector: str, label: str) -> list[str]:
        """What a variable of a dashboard can be chosen from."""
        values: list[str] = self._ask(f"label/{label}/values", {"match[]": selector})
        return values

    def alerts(self) -> dict[str, tuple[str, str]]:
        """By name of the alert: the state of its evaluations (`ok`, `err`, `unknown`), and the last error."""
        groups = self._ask("rules", {})["groups"]
        return {
            rule["name"]: (rule["health"], rule.get("lastError", "")) for group in groups for rule in group["rules"]
        }

    def reads(self) -> int:
        """Of how many targets the last look brought their metrics."""
        targets = self._ask("targets", {})["activeTargets"]
        return sum(each["health"] == "up" for each in targets)

    def _ask(self, path: str, parameters: Mapping[str, Any]) -> Any:
        answer = self._http.get(path, params=dict(parameters)).json()
        if answer["status"] != "success":
            raise QueryError(f"{parameters.get('query', path)}: {answer['error']}")
        return answer["data"]


@contextmanager
def running(folder: Path, targets: Sequence[Target]) -> Iterator[Prometheus]:
    """One that has read all targets, with the chart's alerts; ended with the context.

    Raises:
        BuildError: there are no Debian packages to be had here.
    """
    command = programs().prometheus
    folder.mkdir()
    jobs = [
        {
            "job_name": str(number),
            "static_configs": [{"targets": [each.address], "labels": {**each.labels, "job": each.job}}],
        }
        for number, each in enumerate(targets)
    ]
    every = {"scrape_interval": f"{SCRAPE}s", "scrape_timeout": f"{SCRAPE}s", "evaluation_interval": f"{SCRAPE}s"}
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"global": every, "scrape_configs": jobs, "rule_files": [str(RULES)]}))
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen([*command, *arguments], stderr=output) as process:
        try:
            prometheus = Prometheus(f"http://{address}")
            wait_until("Prometheus to read", lambda: _reads(prometheus, process, log) == len(targets), _PATIENCE)
            yield prometheus
        finally:
            process.terminate()


def _reads(prometheus: Prometheus, process: subprocess.Popen[bytes], log: Path) -> int:
    assert process.poll() is None, log.read_text()
    try:
        return prometheus.reads()
    except (httpx.TransportError, ValueError):
        # It doesn't listen yet, or says in plain text that it isn't ready.
        return 0
