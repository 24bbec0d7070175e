# SPDX-License-Identifier: Apache-2.0
"""Which resources a change in the cluster concerns. Decides nothing else: what changed is read live by the worker."""

import random
import time
from collections.abc import Mapping
from typing import Any, Final

import structlog

from tandem_operator.api.names import PLURAL, RESOURCE_LABEL
from tandem_operator.kube.kinds import DEPLOYMENT, DISRUPTION_BUDGET, NODE, STATEFUL_SET
from tandem_operator.kube.news import News
from tandem_operator.kube.nodes import Nodes
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.kube.queue import WorkQueue
from tandem_operator.kube.watches import Stream, Watches
from tandem_operator.metrics import Metrics
from tandem_operator.plan.pods import is_ready

_log = structlog.get_logger()

_COUNTING: Final = frozenset({STATEFUL_SET.plural, DEPLOYMENT.plural, DISRUPTION_BUDGET.plural})
"""Kinds whose controllers write how many of their pods are ready: for each change of an engine once or several times after it."""
_PATIENCE: Final = 0.5
"""Seconds for which such a count waits. Engines have been told of the change by then; were it read at once, a change that follows
would have to wait until that look is over."""
_SPREAD: Final = 10.0
"""Seconds over which all resources are looked at again after a watch started over."""


class Triggers:
    """Puts the keys of concerned resources into the queue.

    A watch that lost its place lists everything anew. Deletions in between are told by no event (kopf does not compare the
    new list with what it knew, and tells nothing of one that is empty), so all known resources are looked at again then.
    """

    def __init__(
        self,
        queue: WorkQueue[ResourceKey],
        news: News[ResourceKey],
        nodes: Nodes[ResourceKey],
        watches: Watches,
        metrics: Metrics,
    ) -> None:
        self._queue = queue
        self._news = news
        self._nodes = nodes
        self._watches = watches
        self._metrics = metrics
        self._resources: set[ResourceKey] = set()
        self._nodes_seen: dict[str, int] = {}
        """Hash of what matters of each node."""

    def resource(self, event: Mapping[str, Any]) -> None:
        """A DisaggregatedInference appeared, changed or went."""
        metadata = event["object"]["metadata"]
        self._heard(PLURAL, event)
        key = ResourceKey(metadata["namespace"], metadata["name"])
        self._resources.add(key)
        self._metrics.resources.set(len(self._resources))
        self._look_if_news(key, PLURAL, event)

    def child(self, plural: str, event: Mapping[str, Any]) -> None:
        """A pod or a child with a resource's label appeared, changed or went."""
        metadata = event["object"]["metadata"]
        self._heard(plural, event)
        if name := metadata.get("labels", {}).get(RESOURCE_LABEL):
            self._look_if_news(ResourceKey(metadata["namespace"], name), plural, event)

    def node(self, event: Mapping[str, Any]) -> None:
        """A node appeared, changed or went. Its kubelet's reports (every few minutes, for each node) are no news while it is well."""
        node = event["object"]
        name = node["metadata"]["name"]
        self._heard(NODE.plural, event)
        if event["type"] == "DELETED":
            is_news = self._nodes_seen.pop(name, None) is not None
        else:
            content = hash(
                repr((node["metadata"]["uid"], node["metadata"].get("labels"), node.get("spec"), is_ready(node)))
            )
            is_news = self._nodes_seen.get(name) not in (None, content)
            self._nodes_seen[name] = content
        if is_news:
            for key in self._nodes.changed(name):
                self._queue.add(key)

    def listed(self, stream: Stream) -> None:
        """A watch began with a list of all that there is, or began anew."""
        if self._watches.listed(stream):
            _log.info("watch started over", resource=stream.plural)
            self._news.start_over()
            if stream.plural == NODE.plural:
                self._nodes.start_over()
                self._nodes_seen.clear()
            self._metrics.relists.labels(stream.plural).inc()
            for key in self._resources:
                self._queue.add_after(key, random.uniform(0, _SPREAD))  # noqa: S311 -- jitter, not a secret

    def forget(self, key: ResourceKey) -> None:
        """The resource is gone, as a live read said."""
        self._resources.discard(key)
        self._metrics.resources.set(len(self._resources))
        self._queue.forget(key)

    def all(self) -> None:
        """Look at all known resources, for a replica that becomes the leader."""
        for key in self._resources:
            self._queue.add(key)

    def _look_if_news(self, key: ResourceKey, plural: str, event: Mapping[str, Any]) -> None:
        if not self._news.heard(key, plural, event["type"], event["object"]["metadata"]):
            return
        # A worker that has the key now may be about to read what happened, or be the one who did it.
        if plural in _COUNTING and event["type"] == "MODIFIED":
            self._queue.add_if_still(key, _PATIENCE, still=lambda: self._news.of(key))
        else:
            self._queue.add(key, still=lambda: self._news.of(key))

    def _heard(self, plural: str, event: Mapping[str, Any]) -> None:
        self._metrics.watch_events.labels(plural).inc()
        self._metrics.watch_event_time.labels(plural).set(time.time())
        self._watches.heard(plural, event["object"]["metadata"])
