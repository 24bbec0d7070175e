# SPDX-License-Identifier: Apache-2.0
"""Helm's own opinion of the chart."""

import json
import subprocess
from typing import Any

import pytest

from e2e.cluster.tools import helm_path
from tests.chart.rendering import CHART
from tests.chart.test_objects import EVERYTHING


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_helm_warns_of_nothing(values: dict[str, Any]) -> None:
    command = [str(helm_path()), "lint", "--strict", "--quiet", str(CHART), "--kube-version", "1.35.4", "--values", "-"]

    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
