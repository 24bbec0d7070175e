# SPDX-License-Identifier: Apache-2.0
"""What Grafana makes of the chart's dashboards: which expressions it sends to Prometheus.

https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MONITORING: Final = Path(__file__).parents[2] / "charts" / "tandem" / "monitoring"
DASHBOARDS: Final = ("resources.json", "turns.json")
_EVERYTHING: Final = ".*"
"""`allValue` of the dashboards' variables."""
_SPECIAL: Final = re.compile(r"[$^*+?.()|{}\[\]]")
_VARIABLE: Final = re.compile(r"\$(?:{(\w+)}|(\w+))")


@dataclass(frozen=True)
class Query:
    """One expression of a panel."""

    of: str
    """The panel's title, and the query's letter."""
    expression: str
    """With variables."""


def queries() -> Iterator[Query]:
    """All of all dashboards."""
    for name in DASHBOARDS:
        for panel in json.loads((MONITORING / name).read_text(encoding="utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                yield Query(f"{panel['title']}, {target['refId']}", target["expr"])


def choices(dashboard: str) -> list[tuple[str, str]]:
    """Where a dashboard's variables have their values from: a selector with the variables before it, and a label."""
    content = json.loads((MONITORING / dashboard).read_text(encoding="utf-8"))
    return [_choice(each) for each in content["templating"]["list"] if each["type"] == "query"]


def _choice(variable: Mapping[str, Any]) -> tuple[str, str]:
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    if found is None:
        raise ValueError(f"{variable['name']} is chosen from something else than a label's values")
    return found[1], found[2]


def substituted(expression: str, chosen: Mapping[str, Sequence[str]], *, step: int, scrape: int) -> str:
    """The expression as it is sent.

    Args:
        expression: with variables.
        chosen: the values of each variable that may be chosen more than once; none: all.
        step: seconds between two points of the graph.
        scrape: of the data source, seconds.

    Raises:
        ValueError: it has a variable that there isn't.
    """
    values = {name: _pattern(each) for name, each in chosen.items()}
    values["__rate_interval"] = f"{max(step + scrape, 4 * scrape)}s"

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in values:
            raise ValueError(f"there is no variable {name}")
        return values[name]

    return _VARIABLE.sub(value, expression)


def _pattern(values: Sequence[str]) -> str:
    escaped = [_SPECIAL.sub(r"\\\\\g<0>", each) for each in values]
    if not escaped:
        return _EVERYTHING
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
