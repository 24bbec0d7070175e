# SPDX-License-Identifier: Apache-2.0
"""promtool evaluates the chart's alerts over the series in `alerts/`: each fires when it should, as it should, and not before."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.prometheus.programs import programs
from tests.chart.known_metrics import OWN_LABELS, what_there_is_not
from tests.chart.promql import selected
from tests.chart.rendering import CHART, one, render

FILES = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
RULES = CHART / "monitoring" / "alerts.yaml"
GROUPS: dict[str, list[dict[str, Any]]] = {
    group["name"].removeprefix("tandem-"): group["rules"] for group in yaml.safe_load(RULES.read_text())["groups"]
}
ALERTS = [rule["alert"] for rules in GROUPS.values() for rule in rules]
SERIES = sorted(
    {
        series["series"]
        for file in FILES
        for group in yaml.safe_load(file.read_text())["tests"]
        for series in group["input_series"]
    }
)

needs_debian = pytest.mark.skipif(
    not shutil.which("apt-get") or not shutil.which("dpkg-deb"),
    reason="promtool comes from Debian's package `prometheus`, and there is no apt-get here",
)


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*programs().promtool, *map(str, arguments)], capture_output=True, text=True, check=False)


def with_rules(folder: Path, change: Callable[[dict[str, Any]], None]) -> list[Path]:
    """The tests, of other rules than the chart's."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            change(rule)
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    for file in FILES:
        (folder / file.name).write_text(
            yaml.safe_dump({**yaml.safe_load(file.read_text()), "rule_files": ["rules.yaml"]})
        )
    return [folder / file.name for file in FILES]


def complained_of(folder: Path, change: Callable[[dict[str, Any]], None]) -> set[str]:
    """Alerts whose tests fail when the rules are changed."""
    done = promtool("test", "rules", *with_rules(folder, change))
    return set(re.findall(r"alertname: (\w+), time", done.stdout + done.stderr))


def asked_of(alert: str) -> Iterator[dict[str, Any]]:
    """What is asked of an alert, in the file of its group."""
    group = next(name for name, rules in GROUPS.items() if alert in {rule["alert"] for rule in rules})
    file = next(file for file in FILES if file.stem == group)
    for case in yaml.safe_load(file.read_text())["tests"]:
        yield from (asked for asked in case["alert_rule_test"] if asked["alertname"] == alert)


@needs_debian
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    done = promtool("check", "rules", RULES)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(ALERTS)} rules found" in done.stdout


@needs_debian
def test_alerts_fire_when_they_should_with_the_words_that_they_should_have_and_not_before() -> None:
    done = promtool("test", "rules", *FILES)

    assert done.returncode == 0, done.stdout + done.stderr


@needs_debian
def test_promtool_takes_the_rules_that_the_chart_renders(tmp_path: Path) -> None:
    rendered = one(render({"prometheusRule": {"enabled": True}}), "PrometheusRule")["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rendered))

    assert promtool("check", "rules", tmp_path / "rules.yaml").returncode == 0


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_is_seen_to_fire_and_seen_not_to(alert: str) -> None:
    fires = [bool(asked.get("exp_alerts")) for asked in asked_of(alert)]

    assert set(fires) == {True, False}


@needs_debian
def test_alerts_that_wait_a_minute_longer_are_noticed(tmp_path: Path) -> None:
    def wait_longer(rule: dict[str, Any]) -> None:
        rule["for"] = f"{int(rule.get('for', '0m').removesuffix('m')) + 1}m"

    assert complained_of(tmp_path, wait_longer) == set(ALERTS)


@needs_debian
def test_alerts_that_wait_a_minute_less_are_noticed(tmp_path: Path) -> None:
    def wait_less(rule: dict[str, Any]) -> None:
        if "for" in rule:
            rule["for"] = f"{int(rule['for'].removesuffix('m')) - 1}m"

    wait = {rule["alert"] for rules in GROUPS.values() for rule in rules if "for" in rule}
    assert complained_of(tmp_path, wait_less) == wait


@pytest.mark.parametrize("series", SERIES)
def test_series_of_the_tests_are_such_as_the_code_has(series: str) -> None:
    [of] = selected(series)

    assert what_there_is_not(series) == []
    assert OWN_LABELS[of.metric] <= {label for label, _ in of.matchers}
