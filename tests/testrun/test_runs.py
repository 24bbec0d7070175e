# SPDX-License-Identifier: Apache-2.0
"""Both parts of a small project, as pytest runs them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = """
[tool.pytest.ini_options]
addopts = "--import-mode=importlib -ra -p xdist.plugin -p pytest_timeout -p no:cacheprovider"
testpaths = ["tests", "e2e/suite"]
timeout = 120
"""
NOTES_ITS_PROCESS = """
import os, pathlib

def test_fine():
    with pathlib.Path("ran").open("a") as file:
        file.write(f"{pathlib.Path(__file__).name} {os.getpid()}\\n")
"""
FAILS = """
def test_broken():
    assert False
"""
ENDS_SOON = """
import time

def pytest_collection_finish(session):
    session.config.option.end_by = time.time() + 2
"""
HANGS = """
import time

def test_broken():
    assert False

def test_hangs():
    time.sleep(600)

def test_never_begun():
    pass
"""


class Project:
    """Tests in the folders of this repository."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.has("pyproject.toml", SETTINGS)

    def has(self, file: str, text: str) -> None:
        path = self._root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        # Not what this test's own run was told, nor by whom it is directed.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TESTS_END_BY"))}
        return subprocess.run(
            [sys.executable, "-m", "e2e.testrun", *arguments],
            cwd=self._root,
            # Most of the time would go into the other plugins' start.
            env={**own, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def ran(self) -> list[tuple[str, str]]:
        """Files that ran and their processes, in the order of time."""
        file = self._root / "ran"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(name, process) for name, process in (line.split() for line in lines)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_all_parts_run_whatever_fails_in_the_first_and_the_end_of_the_output_tells_of_all(project: Project) -> None:
    for name in ("tests/test_fast.py", "e2e/suite/test_one.py", "e2e/suite/test_two.py", "e2e/suite/engines/test_e.py"):
        project.has(name, NOTES_ITS_PROCESS)
    project.has("tests/test_broken.py", FAILS)

    done = project.run("all", "-n", "2")
    processes = dict(project.ran())
    side_by_side, _, alone = done.stdout.partition(" in ")
    assert done.returncode == 1, done.stdout
    assert processes.keys() == {"test_fast.py", "test_one.py", "test_two.py", "test_e.py"}
    assert processes["test_one.py"] == processes["test_two.py"], "they share a control plane"
    assert project.ran()[-1][0] == "test_e.py", "when nothing else runs"
    assert "e2e/suite/test_two.py: 1 passed\n" in side_by_side
    assert "FAILED tests/test_broken.py::test_broken\n" in side_by_side
    assert "FAILED tests/test_broken.py::test_broken\n" in alone, "said again"
    assert "1 passed in" in done.stdout.splitlines()[-1]


def test_what_is_chosen_by_name_or_by_path_may_be_in_one_part_only(project: Project) -> None:
    project.has("tests/test_fast.py", NOTES_ITS_PROCESS)
    project.has("e2e/suite/engines/test_e.py", NOTES_ITS_PROCESS)

    assert project.run("all", "-n", "0", "-k", "test_e and fine").returncode == 0
    assert [name for name, _ in project.ran()] == ["test_e.py"]
    assert project.run("all", "-n", "0", "tests/test_fast.py").returncode == 0
    assert [name for name, _ in project.ran()] == ["test_e.py", "test_fast.py"]


@pytest.mark.parametrize(
    ("part", "file", "more"),
    [("alone", "e2e/suite/engines/test_e.py", ()), ("side-by-side", "tests/test_fast.py", ("-n", "1"))],
)
def test_when_the_time_is_over_the_test_that_runs_fails_none_is_begun_and_the_failures_are_told(
    project: Project, part: str, file: str, more: tuple[str, ...]
) -> None:
    project.has("conftest.py", ENDS_SOON)
    project.has(file, HANGS)

    done = project.run(part, *more, TESTS_END_BY=str(time.time() + 600))
    assert done.returncode not in {0, 5}, done.stdout
    assert f"FAILED {file}::test_broken" in done.stdout
    assert f"FAILED {file}::test_hangs - Failed: Timeout" in done.stdout
    assert f"the time for all tests is over: {file}::test_never_begun" in done.stdout
    assert "2 failed in" in done.stdout.splitlines()[-1]
