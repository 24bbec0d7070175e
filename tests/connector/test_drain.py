# SPDX-License-Identifier: Apache-2.0
"""What waits for an engine's end, run as a preStop hook runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tandem_connector import drain
from tandem_connector.contract.environment import DATA_PARALLEL, DRAIN_MARK, RANK_SUFFIX, STATUS_FILE
from tandem_connector.vllm.status import DrainStage, Status, StatusFile


def waits(path: Path, within: float, *more: str, ranks: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", drain.__file__, "--within", str(within), *more],
        env={STATUS_FILE: str(path), **({DATA_PARALLEL: str(ranks)} if ranks else {})},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_returns_when_the_engine_is_drained(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", drain.__file__, "--within", "60"], env={STATUS_FILE: str(path)}
    )
    file = StatusFile(path)
    file.change(drain=DrainStage.DRAINING)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    file.change(drain=DrainStage.DRAINED)
    assert process.wait(60) == 0


def test_it_tells_the_engine_by_a_file_beside_the_status_file(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    waits(path, 0.1)
    assert path.with_name(f"status.json{DRAIN_MARK}").exists()


def test_it_tells_each_rank_and_waits_for_the_last_one(tmp_path: Path) -> None:
    path, second = tmp_path / "status.json", tmp_path / f"status.json{RANK_SUFFIX}1"
    StatusFile(path).change(drain=DrainStage.DRAINED)
    assert waits(path, 60, "--told-within=0.2", ranks=2).stderr == "after 0.2 s the engine is silent, not drained\n"
    assert {each.name for each in tmp_path.glob(f"*{DRAIN_MARK}")} == {
        f"{path.name}{DRAIN_MARK}",
        f"{second.name}{DRAIN_MARK}",
    }
    rank = StatusFile(second)
    rank.change(drain=DrainStage.DRAINING)
    done = waits(path, 0.2, ranks=2)
    assert (done.returncode, done.stderr) == (1, "after 0.2 s the engine is draining, not drained\n")
    rank.change(drain=DrainStage.DRAINED)
    assert waits(path, 60, ranks=2).returncode == 0


def test_it_says_when_the_engine_cannot_be_told(tmp_path: Path) -> None:
    done = waits(tmp_path / "none" / "status.json", 0.1)
    assert "the engine can't be told that it is to end" in done.stderr


def test_it_waits_no_longer_than_it_may_and_says_how_far_the_engine_came(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    StatusFile(path).change(drain=DrainStage.DRAINING)
    done = waits(path, 0.2)
    assert (done.returncode, done.stderr) == (1, "after 0.2 s the engine is draining, not drained\n")


def test_it_waits_for_an_engine_that_hears_nothing_of_its_end_only_as_long_as_for_the_order(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    assert waits(path, 60, "--told-within=0.2").stderr == "after 0.2 s the engine is silent, not drained\n"
    StatusFile(path)
    assert waits(path, 60, "--told-within=0.2").stderr == "after 0.2 s the engine is serving, not drained\n"


def test_it_waits_no_less_than_it_must_though_the_engine_is_drained(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    StatusFile(path).change(drain=DrainStage.DRAINED)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", drain.__file__, "--within=60", "--at-least=60"], env={STATUS_FILE: str(path)}
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.kill()
    process.wait()
    assert waits(path, 60, "--at-least=0.1").returncode == 0


@pytest.mark.parametrize("content", ["", "{", "[]", "5", "{}", '{"drain": null}'])
def test_a_file_that_says_nothing_is_no_end(tmp_path: Path, content: str) -> None:
    path = tmp_path / "status.json"
    path.write_text(content)
    assert drain.stage(str(path)) in {"", "None"}
    assert drain.stage(str(tmp_path / "none")) == ""


def test_a_process_begins_by_saying_that_it_serves_whatever_the_one_before_said(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    path.write_text(Status(DrainStage.DRAINED, "unwell", 1.0).to_file())
    StatusFile(path)
    assert path.read_text() == Status().to_file()
    assert drain.stage(str(path)) == "serving"


def test_an_engine_whose_status_cannot_be_written_lives(tmp_path: Path) -> None:
    file = StatusFile(tmp_path / "none" / "status.json")
    file.change(drain=DrainStage.DRAINING)
    assert file.status.drain is DrainStage.DRAINING
