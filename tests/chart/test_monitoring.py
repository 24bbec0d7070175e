# SPDX-License-Identifier: Apache-2.0
"""Dashboards and alerts: of metrics, labels and values that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.__main__ import DASHBOARDS
from tests.chart.known_metrics import LABELS, OF_THE_ENGINES_MONITOR, what_there_is_not
from tests.chart.promql import grouped, parsed, selected
from tests.chart.rendering import CHART, one, render

ROOT = Path(__file__).parents[2]
MONITORING = CHART / "monitoring"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = [
    panel
    for name in DASHBOARDS
    for panel in json.loads((MONITORING / name).read_text())["panels"]
    if panel["type"] != "row"
]
VARIABLES = [
    variable["query"]["query"]
    for name in DASHBOARDS
    for variable in json.loads((MONITORING / name).read_text())["templating"]["list"]
    if variable["type"] == "query"
]


def _kept(expression: str) -> set[str]:
    """Labels that the result may have."""
    return {label for labels, _ in grouped(expression) for label in labels}


QUERIES = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
each_query = pytest.mark.parametrize(("title", "query"), QUERIES, ids=[f"{t}-{q['refId']}" for t, q in QUERIES])
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


@each_query
def test_a_panel_shows_metrics_labels_and_values_that_there_are(title: str, query: dict[str, Any]) -> None:
    assert what_there_is_not(query["expr"]) == []


@each_query
def test_series_of_a_panel_are_called_by_labels_that_they_have(title: str, query: dict[str, Any]) -> None:
    assert set(re.findall(r"{{(\w+)}}", query["legendFormat"])) <= _kept(query["expr"])


@each_rule
def test_an_alert_is_of_metrics_labels_and_values_that_there_are(rule: dict[str, Any]) -> None:
    assert list(selected(rule["expr"]))
    assert what_there_is_not(rule["expr"]) == []


@each_rule
def test_an_alert_says_what_happened_to_whom(rule: dict[str, Any]) -> None:
    named = {label for text in rule["annotations"].values() for label in re.findall(r"\$labels\.(\w+)", text)}

    assert named <= _kept(rule["expr"])
    assert set(rule["annotations"]) == {"summary", "description"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("tandem_leaders", ["tandem_leaders"]),
        ("tandem_blocks_lost", ["tandem_blocks_lost"]),
        ('tandem_leader{role="decode"}', ["tandem_leader{role}"]),
        ('tandem_resource_condition{type="Redy"}', ["tandem_resource_condition{type=Redy}"]),
        ('tandem_prompts_local_total{reason=~"no_peer|late"}', ["tandem_prompts_local_total{reason=late}"]),
        ("sum by (purpose) (tandem_leader)", ["by (purpose)"]),
    ],
)
def testwhat_there_is_not_is_noticed(expression: str, wrong: list[str]) -> None:
    assert what_there_is_not(expression) == wrong


def test_what_is_no_promql_is_noticed() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        parsed("sum by (a (b)")


@pytest.mark.parametrize("query", VARIABLES)
def test_a_dashboards_variables_are_labels_that_there_are(query: str) -> None:
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", query)

    assert match is not None
    assert what_there_is_not(match[1]) == []
    [of] = selected(match[1])
    assert match[2] in LABELS[of.metric]


def _runbooks() -> Iterator[str]:
    for line in (ROOT / "docs/alerts.md").read_text().splitlines():
        if line.startswith("### "):
            yield line.removeprefix("### ")


def test_each_alert_has_a_place_in_the_runbook_and_the_runbook_has_no_other() -> None:
    assert sorted(_runbooks()) == sorted(rule["alert"] for rule in RULES)


def test_a_rendered_alert_leads_to_its_place_in_the_runbook() -> None:
    objects = render({"prometheusRule": {"enabled": True, "runbooks": "https://docs.example/alerts/"}})
    rendered = [rule for group in one(objects, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]]

    assert [rule["annotations"].pop("runbook_url") for rule in rendered] == [
        f"https://docs.example/alerts/#{rule['alert'].lower()}" for rule in RULES
    ]
    assert rendered == RULES


def test_an_alert_can_be_left_out() -> None:
    names = [rule["alert"] for rule in RULES if rule["alert"] != "TandemNoLeader"]
    objects = render({"prometheusRule": {"enabled": True, "disabled": ["TandemNoLeader"]}})

    assert [
        rule["alert"] for group in one(objects, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]
    ] == names


def test_no_empty_group_is_left_when_all_of_its_alerts_are_left_out() -> None:
    objects = render({"prometheusRule": {"enabled": True, "disabled": [rule["alert"] for rule in RULES]}})

    assert one(objects, "PrometheusRule")["spec"]["groups"] is None


def test_grafanas_sidecar_finds_all_dashboards_unchanged() -> None:
    config_map = one(render({"dashboards": {"enabled": True}}), "ConfigMap", "tandem-dashboards")

    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in config_map["data"].items()} == {
        name: json.loads((MONITORING / name).read_text()) for name in DASHBOARDS
    }


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_have_numbers_of_their_own_and_lie_beside_each_other(name: str) -> None:
    panels = json.loads((MONITORING / name).read_text())["panels"]
    places = [
        (x, panel["gridPos"]["y"])
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) == 23
    assert all(panel["description"] for panel in panels if panel["type"] != "row")


def test_the_monitor_of_engines_adds_the_labels_that_queries_need() -> None:
    spec = one(render({"podMonitor": {"enabled": True}}), "PodMonitor", "tandem-engines")["spec"]

    assert {re.sub(r"[./]", "_", label) for label in spec["podTargetLabels"]} == OF_THE_ENGINES_MONITOR
