# SPDX-License-Identifier: Apache-2.0
"""How the parts are started, and what their statuses come to."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.testrun.__main__ import command, main, status_of
from e2e.testrun.parts import Part

ROOT = Path(__file__).parents[2]
NO_TESTS = 5


@given(st.lists(st.integers(0, 5), min_size=1, max_size=2))
def test_all_is_well_exactly_if_some_part_is_and_the_others_are_or_have_no_such_test(statuses: list[int]) -> None:
    assert (status_of(statuses) == 0) == (0 in statuses and set(statuses) <= {0, NO_TESTS})
    assert status_of(statuses) in statuses


def test_a_part_that_failed_is_not_hidden_by_the_one_after_it() -> None:
    assert status_of([1, 0]) == 1
    assert status_of([0, 1]) == 1
    assert status_of([NO_TESTS, 2]) == 2
    assert status_of([NO_TESTS, NO_TESTS]) == NO_TESTS


def test_only_what_shares_a_machine_gets_several_processes_and_those_are_few_on_a_machine_with_many_cores() -> None:
    several, one = (command(part, Path("failures"), None) for part in (Part.SIDE_BY_SIDE, Part.ALONE))

    assert {"-n", "logical", "--maxprocesses=4"} <= set(several)
    assert "-n" not in one


def test_an_end_is_passed_on_if_there_is_one() -> None:
    assert "--end-by=1796176800" in command(Part.ALONE, Path("failures"), "1796176800")
    assert not [word for word in command(Part.ALONE, Path("failures"), None) if "--end-by" in word]


@pytest.mark.parametrize("arguments", [[], ["-k", "lease"]])
def test_a_part_has_to_be_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "all|side-by-side|alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "begins"), [("test", ["all"]), ("unit", ["side-by-side", "tests"]), ("e2e", ["all", "e2e/suite"])]
)
def test_make_passes_pytests_arguments_on_as_they_are(tmp_path: Path, target: str, begins: list[str]) -> None:
    python = _program(tmp_path / "python", 'printf "%s\\n" "$@"')
    told = ("--old-file=setup", "--old-file=check", "--old-file=prepare", f"PYTHON={python}", target)

    done = subprocess.run(
        ["make", *told, "PYTEST_ARGS=-k 'a or b' -v"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["-m", "e2e.testrun", *begins, "-k", "a or b", "-v"]


def test_in_continuous_integration_examples_are_the_same_and_the_end_is_minutes_before_one_would_be_cut_off(
    tmp_path: Path,
) -> None:
    _program(tmp_path / "make", 'echo "$TESTS_END_BY $*"')
    began = int(time.time())

    done = subprocess.run(
        [ROOT / ".ci" / "run"],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.fullmatch(r"(\d+) test PYTEST_ARGS=--durations=25 --hypothesis-seed=0\n", done.stdout)
    assert found, done.stdout
    assert began + 85 * 60 <= int(found[1]) <= time.time() + 85 * 60


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!{shutil.which('sh')}\n{script}\n")
    path.chmod(0o755)
    return path
