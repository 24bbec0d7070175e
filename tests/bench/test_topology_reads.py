# SPDX-License-Identifier: Apache-2.0
"""When engines had read what they were told, and the pods that say so."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.bench.topology.node import resource
from e2e.bench.topology.reads import Read, Reading, readings, reads
from e2e.bench.topology.tables import Change, Kind, Told
from tandem_connector.contract.environment import PEERS_DIRECTORY
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Observed
from tests.builders import DEFAULTS


def told(at: float, **generations: int) -> Told:
    return Told(Change(Kind.UNREADY, "qwen", "changed", at), at + 0.1, generations)


def test_a_change_is_read_when_the_last_of_those_that_were_told_has_read_that_table_or_a_later_one() -> None:
    read = {"one": [Read(6, 0.5), Read(7, 1.3)], "two": [Read(8, 1.5), Read(9, 9.0)]}
    assert readings([told(1.0, one=7, two=7, simulated=7)], read) == [Reading(1.0, 1.1, 1.5)]


def test_a_change_that_one_of_them_never_read_was_not_read() -> None:
    read = {"one": [Read(7, 1.3)], "two": [Read(6, 1.2)]}
    assert readings([told(1.0, one=7, two=7)], read) == [Reading(1.0, 1.1, None)]


def test_a_change_of_which_none_of_them_had_to_be_told_does_not_count() -> None:
    assert readings([told(1.0, simulated=7), told(2.0)], {"one": [Read(7, 1.3)]}) == []


def test_what_a_reader_is_still_writing_is_left_for_later(tmp_path: Path) -> None:
    (tmp_path / "uid").write_text("3 1.25\n4 2.5\n5 3.")
    (tmp_path / "other").write_text("")
    assert reads(tmp_path) == {"uid": [Read(3, 1.25), Read(4, 2.5)], "other": []}


def test_readers_are_engines_without_vllm(tmp_path: Path) -> None:
    manifest = resource(tmp_path)
    metadata = {**manifest["metadata"], "uid": "1", "namespace": "default", "generation": 1}
    observed = Observed(DisaggregatedInference.model_validate({**manifest, "metadata": metadata}), datetime.now(UTC))
    sets = {
        each["metadata"]["name"]: each for each in plan(observed, DEFAULTS).objects if each["kind"] == "StatefulSet"
    }
    pod: dict[str, Any] = sets["readers-decode"]["spec"]["template"]["spec"]
    (engine,) = pod["containers"]
    assert pod["initContainers"] == []
    assert "e2e.bench.topology.reader" in engine["command"]
    assert {"httpGet", "exec"} & engine["startupProbe"].keys() == {"exec"}
    mounts = {mount["mountPath"]: mount["name"] for mount in engine["volumeMounts"]}
    (volume,) = [each for each in pod["volumes"] if each["name"] == mounts[PEERS_DIRECTORY]]
    assert "downwardAPI" in volume
