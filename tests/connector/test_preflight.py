# SPDX-License-Identifier: Apache-2.0
"""What an image must have, looked for by a Python without any packages but those that a test gives it."""

import os
import subprocess
import sys
from pathlib import Path

import tandem_connector
from tandem_connector.contract.environment import NO_NIXL

CONNECTOR = Path(tandem_connector.__file__).parents[1]


def preflight(*packages: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (CONNECTOR, *packages)))
    command = [sys.executable, "-S", "-m", "tandem_connector.preflight"]
    return subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_an_image_without_nixl_is_refused_with_the_remedy() -> None:
    done = preflight()

    assert (done.returncode, done.stderr.strip()) == (1, NO_NIXL)


def test_an_image_with_nixl_is_let_through_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "nixl"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('it takes seconds')")

    done = preflight(tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
