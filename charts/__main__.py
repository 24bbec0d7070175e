# SPDX-License-Identifier: Apache-2.0
"""Derives the chart's README and schema and the plain manifests from the chart: `python -m charts write|check`.

The README's table of values and the schema come from the comments of values.yaml; manifests/install.yaml is the chart with its
defaults, for clusters without Helm. Dashboards come from their panels, and docs/reference/metrics.md from the tables of the code;
docs/reference/values.md is the README's table.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from charts.dashboard_resources import RESOURCES
from charts.dashboard_turns import TURNS
from charts.grafana import Dashboard, dashboard_json
from charts.metrics import metrics_page
from charts.schema import values_schema
from charts.values import Value, described_values, value_tree
from e2e.cluster.tools import helm_path
from tandem_operator.api.text import as_yaml

CHART = Path(__file__).parent / "tandem"
ROOT = Path(__file__).parent.parent
NAMESPACE = "tandem-system"
DASHBOARDS = {"turns.json": TURNS, "resources.json": RESOURCES}
"""By the names of their files."""


def readme() -> str:
    """The chart's README: the text around it, and the table of all values."""
    template = (CHART.parent / "README.template.md").read_text(encoding="utf-8")
    return template.replace("{{ values }}", _table())


def values_page() -> str:
    """The same table as a page of the documentation."""
    return (
        "<!-- Generated from charts/tandem/values.yaml by `make generate`. Do not edit. -->\n"
        "# Values of the chart\n\n"
        "What `helm install tandem charts/tandem --set VALUE=...` takes. Anything else is refused, by the chart's schema.\n"
        "[Dashboards and alerts](../alerts.md) says what monitoring needs.\n\n"
        f"{_table()}"
    )


def _table() -> str:
    rows = "".join(_row(value) for value in described_values(_values_file()))
    return f"| value | default | meaning |\n| --- | --- | --- |\n{rows}"


def _row(value: Value) -> str:
    return f"| `{value.path}` | `{json.dumps(value.default)}` | {value.description} |\n"


def schema() -> str:
    """The text of values.schema.json."""
    return values_schema("Values of the chart tandem", value_tree(_values_file()))


def _values_file() -> str:
    return (CHART / "values.yaml").read_text(encoding="utf-8")


def install_manifest() -> str:
    """The chart's objects with default values, behind their namespace."""
    release = ["template", "tandem", str(CHART), "--namespace", NAMESPACE]
    # The schema in the folder may be that of other values.
    options = ["--kube-version", "1.34.0", "--skip-tests", "--skip-schema-validation"]
    command = [str(helm_path()), *release, *options]
    rendered = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    objects: list[dict[str, Any]] = [namespace, *filter(None, yaml.safe_load_all(rendered.stdout))]
    header = (
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# Generated from charts/tandem by `make generate`. Do not edit.\n"
        "# kubectl apply --server-side -f install.yaml\n"
    )
    return header + "".join(f"---\n{as_yaml(each)}" for each in objects)


def derived_files() -> dict[Path, str]:
    """Everything that is derived from the chart, by path from the repository's root."""
    return {
        Path("charts/tandem/README.md"): readme(),
        Path("charts/tandem/values.schema.json"): schema(),
        Path("manifests/install.yaml"): install_manifest(),
        Path("docs/reference/metrics.md"): metrics_page(),
        Path("docs/reference/values.md"): values_page(),
        **{Path("charts/tandem/monitoring", name): _dashboard(each) for name, each in DASHBOARDS.items()},
    }


def _dashboard(dashboard: Dashboard) -> str:
    return json.dumps(dashboard_json(dashboard), indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the derived files. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m charts", description=main.__doc__)
    parser.add_argument("action", choices=("write", "check"))
    action = parser.parse_args(arguments).action
    differing = {
        path: text
        for path, text in derived_files().items()
        if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text
    }
    for path, text in differing.items():
        print(f"{'written' if action == 'write' else 'differs from the chart'}: {path}")
        if action == "write":
            (ROOT / path).write_text(text, encoding="utf-8")
    if action == "check" and differing:
        print("run `make generate` and commit the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
