# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus answers all panels and evaluates all alerts, over metrics of the names, kinds and labels that the code has.

The operator's are its own, of a status in which everything is told. The engines' are made from the connector's tables.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from charts.metrics import ENGINE_LABELS, engine_metrics
from e2e.cluster.progress import wait_until
from e2e.prometheus.asked import alerts_that_fail, unanswered, without_choices
from e2e.prometheus.grafana import DASHBOARDS, queries
from e2e.prometheus.server import Prometheus, QueryError, Target, running
from tandem_connector.contract.types import Role
from tandem_operator.api.status import Condition, ConditionStatus, ConditionType, Reason, RoleStatus, Status, Topology
from tandem_operator.metrics import Metrics
from tests.chart.known_metrics import VALUES
from tests.chart.test_alert_rules import needs_debian
from tests.chart.vllm_metrics import VLLM_METRICS

pytestmark = needs_debian

TOLD = {
    ConditionType.READY: (ConditionStatus.FALSE, Reason.ENGINES_STARTING),
    ConditionType.AVAILABLE: (ConditionStatus.FALSE, Reason.NO_DECODE),
    ConditionType.PROGRESSING: (ConditionStatus.TRUE, Reason.ENGINES_STARTING),
    ConditionType.DEGRADED: (ConditionStatus.TRUE, Reason.POD_FAILING),
    ConditionType.SCALING_LIMITED: (ConditionStatus.TRUE, Reason.GPU_BUDGET),
    ConditionType.FABRIC_ACTIVE: (ConditionStatus.FALSE, Reason.TCP_FALLBACK),
    ConditionType.KV_TRANSFER_VERIFIED: (ConditionStatus.FALSE, Reason.NOTHING_MOVED),
}


def a_status() -> Status:
    now = "2026-01-02T03:04:05Z"
    return Status(
        conditions=tuple(
            Condition(
                type=kind, status=status, observed_generation=1, last_transition_time=now, reason=reason, message="..."
            )
            for kind, (status, reason) in TOLD.items()
        ),
        decode=RoleStatus(replicas=3, ready=2, updated=1, draining=1),
        topology=Topology(generation=7, engines=4, pairs=3),
    )


def an_operator(registry: CollectorRegistry) -> Metrics:
    metrics = Metrics(registry)
    metrics.leader.set(1)
    metrics.of_resources.saw("models", "qwen", a_status(), time.time())
    metrics.api_errors.labels("GET", "pods", "500").inc()
    metrics.failures.labels("KubeError").inc()
    metrics.conversations.labels("shown").inc()
    return metrics


class Engine:
    """Does something of all that is counted, whenever it is told to."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        known = [(each.name, each.kind, each.labels) for each in engine_metrics()]
        # A colon begins a namespace of vLLM's; their kinds follow from the names.
        for name, labels in VLLM_METRICS.items():
            known.append((name.removesuffix("_bucket"), "histogram" if name.endswith("_bucket") else "gauge", labels))
        self._series = [each for name, kind, labels in known for each in self._made(name, kind, labels)]
        self.works()

    def _made(self, name: str, kind: str, labels: tuple[str, ...]) -> Iterator[Any]:
        own = tuple(label for label in labels if label != "le")
        made = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}[kind](
            name, "...", [*ENGINE_LABELS, *own], registry=self.registry
        )
        values = [sorted(VALUES.get((name, label), {"x"})) for label in own]
        for number in range(max((len(each) for each in values), default=1)):
            yield made.labels("m", "0", *(each[number % len(each)] for each in values))

    def works(self) -> None:
        for each in self._series:
            if isinstance(each, Histogram):
                each.observe(0.5)
            else:
                each.inc()


@contextmanager
def served(registry: CollectorRegistry) -> Iterator[str]:
    """HOST:PORT of its metrics, in the plain form whatever is asked for, as vLLM serves them."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.end_headers()
            self.wfile.write(generate_latest(registry))

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has read an operator, and two engines at work."""
    engine, registry = Engine(), CollectorRegistry()
    metrics = an_operator(registry)
    with served(registry) as operator, served(engine.registry) as engines:
        targets = [
            Target("tandem-metrics", operator, {"namespace": "tandem-system", "pod": "tandem-a"}),
            *(
                Target(
                    "models/tandem-engines",
                    engines,
                    {
                        "namespace": "models",
                        "pod": f"qwen-{role}-0",
                        "tandem_dev_resource": "qwen",
                        "tandem_dev_role": str(role),
                    },
                )
                for role in Role
            ),
        ]
        with running(tmp_path_factory.mktemp("prometheus") / "server", targets) as prometheus:

            def work() -> bool:
                engine.works()
                metrics.queue_latency.observe(0.1)
                metrics.reconcile_duration.labels("done").observe(0.2)
                return not unanswered(prometheus, queries(), {})

            wait_until("all panels to have data", work, 30)
            yield prometheus


@pytest.mark.parametrize(
    "chosen",
    [{}, {"namespace": ["models"], "resource": ["qwen"]}, {"namespace": ["models", "x"], "resource": ["x", "qwen"]}],
    ids=["all", "one", "two"],
)
def test_every_panel_has_data_whatever_is_chosen(prometheus: Prometheus, chosen: dict[str, list[str]]) -> None:
    assert unanswered(prometheus, queries(), chosen) == set()


def test_panels_show_nothing_of_resources_that_are_not_chosen(prometheus: Prometheus) -> None:
    of_resources = [each for each in queries() if "$resource" in each.expression]

    assert len(of_resources) > 30
    assert unanswered(prometheus, of_resources, {"resource": ["qwe"]}) == {each.of for each in of_resources}


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_there_is_something_to_choose_from(prometheus: Prometheus, dashboard: str) -> None:
    assert without_choices(prometheus, dashboard) == set()


def test_no_alerts_expression_is_an_error(prometheus: Prometheus) -> None:
    wait_until("all alerts to be evaluated", lambda: not alerts_that_fail(prometheus), 30)
    assert len(prometheus.alerts()) == 18


def test_an_expression_that_prometheus_can_make_nothing_of_is_noticed(prometheus: Prometheus) -> None:
    with pytest.raises(QueryError, match="many-to-many matching not allowed"):
        prometheus.numbers("tandem_resource_condition * on (resource_name) tandem_resource_engines")
