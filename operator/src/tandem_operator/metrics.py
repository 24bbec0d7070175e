# SPDX-License-Identifier: Apache-2.0
"""What the operator measures. Each metric's help text is the question that it answers."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tandem_operator.resource_metrics import ResourceMetrics

_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one process. Labels have few values: kinds, verbs and outcomes; only `of_resources` has names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.of_resources = ResourceMetrics(registry)
        self.queue_depth = Gauge(
            "tandem_queue_depth",
            "Is the operator keeping up? Resources that wait for a worker (on a standby: that would).",
            registry=registry,
        )
        self.queue_latency = Histogram(
            "tandem_queue_latency_seconds",
            "How long does a change wait before somebody looks at it?",
            buckets=_DURATIONS,
            registry=registry,
        )
        self.reconcile_duration = Histogram(
            "tandem_reconcile_duration_seconds",
            "How long does one look at one resource take, and how does it end? "
            "(done, requeued: it has to be repeated soon, failed, gone: the resource is no more)",
            ["outcome"],
            buckets=_DURATIONS,
            registry=registry,
        )
        self.applies = Counter(
            "tandem_applies_total",
            "What is being written? By kind and result "
            "(changed, unchanged: the server found nothing to do, skipped: not even asked, refused, immutable, gone)",
            ["kind", "result"],
            registry=registry,
        )
        self.deletes = Counter(
            "tandem_deletes_total", "What is being deleted as no longer wanted?", ["kind"], registry=registry
        )
        self.events = Counter(
            "tandem_events_total", "Which transitions are reported as Events?", ["reason"], registry=registry
        )
        self.api_errors = Counter(
            "tandem_api_errors_total",
            "What does the API server not do for us? By HTTP status; `unreachable` without one. Retried attempts count.",
            ["method", "resource", "status"],
            registry=registry,
        )
        self.failures = Counter(
            "tandem_reconcile_failures_total",
            "Which errors stop reconciles? By the error's class; the log has the text.",
            ["error"],
            registry=registry,
        )
        self.resources = Gauge("tandem_resources", "How many resources does this replica know of?", registry=registry)
        self.leader = Gauge(
            "tandem_leader",
            "Does this replica do the work? Their sum over all replicas should be 1.",
            registry=registry,
        )
        self.watch_events = Counter(
            "tandem_watch_events_total", "What wakes the operator up?", ["resource"], registry=registry
        )
        self.watch_event_time = Gauge(
            "tandem_watch_last_event_timestamp_seconds",
            "When did the watch of this kind last say something? Silence is normal in a quiet cluster.",
            ["resource"],
            registry=registry,
        )
        self.relists = Counter(
            "tandem_watch_relists_total",
            "How often did a watch have to start over (and may have missed deletions)?",
            ["resource"],
            registry=registry,
        )
        self.conversations = Counter(
            "tandem_verifications_total",
            "What do conversations with decode engines show? The worst of what one says of its pairs "
            "(shown: KV moves and is right, failed, open: neither)",
            ["standing"],
            registry=registry,
        )
