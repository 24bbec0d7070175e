# SPDX-License-Identifier: Apache-2.0
"""What the chart's dashboards and alerts ask of a Prometheus, and whether it can answer."""

from collections.abc import Iterable, Mapping, Sequence

from e2e.prometheus.grafana import Query, choices, substituted
from e2e.prometheus.server import SCRAPE, Prometheus

Chosen = Mapping[str, Sequence[str]]


def unanswered(prometheus: Prometheus, asked: Iterable[Query], chosen: Chosen) -> set[str]:
    """The panels' queries to which there was nothing to be said, from its start until now.

    Raises:
        QueryError: Prometheus can't make anything of one.
    """
    everything: Chosen = {"namespace": (), "resource": ()}
    return {
        each.of
        for each in asked
        if not prometheus.numbers(substituted(each.expression, {**everything, **chosen}, step=SCRAPE, scrape=SCRAPE))
    }


def without_choices(prometheus: Prometheus, dashboard: str) -> set[str]:
    """Selectors by which the dashboard's variables find nothing to choose from."""
    everything: Chosen = {"namespace": (), "resource": ()}
    return {
        selector
        for selector, label in choices(dashboard)
        if not prometheus.label_values(substituted(selector, everything, step=SCRAPE, scrape=SCRAPE), label)
    }


def alerts_that_fail(prometheus: Prometheus) -> dict[str, tuple[str, str]]:
    """Those of which the last evaluation did not end well, with its state and error."""
    return {name: health for name, health in prometheus.alerts().items() if health != ("ok", "")}


def firing(prometheus: Prometheus) -> set[str]:
    """Alerts that fire."""
    return {each["alertname"] for each in prometheus.now('ALERTS{alertstate="firing"}')}
