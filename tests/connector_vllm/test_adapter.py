# SPDX-License-Identifier: Apache-2.0
"""What is used of vLLM is there and does what the connector takes it to do: in the engine environment's own Python."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

from e2e.engine.environment import engine_environment

SCRIPT = Path(__file__).with_name("inside_engine.py")
ROOT = Path(__file__).parents[2]
CONNECTOR = ROOT / "connector" / "src"
CHECKS = [
    node.name
    for script in (SCRIPT.with_name("shapes_inside_engine.py"), SCRIPT.with_name("metrics_inside_engine.py"), SCRIPT)
    for node in ast.parse(script.read_text()).body
    if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Constant)
]
"""The functions that return nothing."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What became of each check; one process for all of them, because importing vLLM takes long."""
    environment = engine_environment()
    if not environment.complete:
        pytest.skip("the engine environment isn't built: run `make prepare`")
    run = subprocess.run(
        [str(environment.python), str(SCRIPT), *CHECKS],
        env={**os.environ, "PYTHONPATH": f"{CONNECTOR}:{ROOT}", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line.split() for line in run.stdout.splitlines() if line.startswith(("passed ", "failed ")))
    return {name: f"{outcome}\n{run.stderr[-4000:]}" for outcome, name in lines} or {"": run.stderr[-4000:]}


@pytest.mark.parametrize("check", CHECKS)
def test_inside_the_engine(check: str, outcomes: dict[str, str]) -> None:
    assert outcomes.get(check, outcomes.get("", "did not run")).startswith("passed")
