# SPDX-License-Identifier: Apache-2.0
"""Dashboards in Grafana's JSON, from rows of panels that say no more than what they show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_WIDTH: Final = 24
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA_VERSION: Final = 39
"""Of the JSON model; Grafana 11 and newer read it, and bring it to their own."""


@dataclass(frozen=True, slots=True)
class Query:
    """One expression, and how its series are called: `{{label}}` is the label's value."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph over time."""

    title: str
    description: str
    """The question that it answers, and what to look at."""
    unit: str
    """Grafana's name of it."""
    queries: tuple[Query, ...]
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels beside each other, under a title."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    namespaces: str
    """Query for the values of `$namespace`."""
    resources: str
    """Query for the values of `$resource`."""


def dashboard_json(dashboard: Dashboard) -> dict[str, Any]:
    """What Grafana loads."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["tandem"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("namespace", "Namespace", dashboard.namespaces),
                _variable("resource", "Resource", dashboard.resources),
            ]
        },
        "panels": _panels(dashboard.rows),
    }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def _panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        made.append(_row(row.title, len(made) + 1, top))
        width = _WIDTH // len(row.panels)
        for index, panel in enumerate(row.panels):
            place = {"h": _HEIGHT, "w": width, "x": index * width, "y": top + 1}
            made.append(_panel(panel, len(made) + 1, place))
        top += 1 + _HEIGHT
    return made


def _row(title: str, number: int, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 30 if panel.stacked else 5, "showPoints": "never"}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
