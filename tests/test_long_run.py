# SPDX-License-Identifier: Apache-2.0
"""Long runs: what their command line makes of a plan, and what they leave behind."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.long_run import LongRun, begin

OPTIONS = {"minutes": "of load", "clients": "at a time", "hands": "nothing over"}


@dataclass(frozen=True)
class Plan:
    seed: int
    minutes: float = 10.0
    clients: int = 6
    hands: bool = True


def begun(kept: Path, *arguments: str) -> LongRun[Plan]:
    return begin(Plan, argparse.ArgumentParser(), arguments, kept=kept, options=OPTIONS)


def test_what_isnt_asked_for_is_as_the_plan_says_and_the_seed_is_drawn(tmp_path: Path) -> None:
    run, other = begun(tmp_path / "one"), begun(tmp_path / "other")
    assert run.plan == Plan(run.seed)
    assert run.seed != other.seed
    assert str(run.seed) in run.folder.name
    assert list(run.folder.iterdir()) == []


def test_options_have_the_types_of_the_plans_fields(tmp_path: Path) -> None:
    plan = begun(tmp_path, "--seed", "7", "--minutes", "0.5", "--clients", "3", "--no-hands").plan
    assert plan == Plan(7, minutes=0.5, clients=3, hands=False)


def test_a_folder_is_kept_when_something_has_failed_and_only_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    well, badly = begun(tmp_path / "well"), begun(tmp_path / "badly")
    well.end(["figure turns 3"], [])
    assert not well.folder.exists()
    with pytest.raises(
        SystemExit, match=rf"wrong: it said no\nseed {badly.seed}; everything is kept in {badly.folder}"
    ):
        badly.end(["figure turns 4"], ["wrong: it said no"])
    assert badly.folder.exists()
    assert capsys.readouterr().out.endswith("figure turns 3\nfigure turns 4\n")


def test_what_was_asked_for_wrongly_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        begun(tmp_path / "kept", "--minutes", "many")
    assert not (tmp_path / "kept").exists()
