# SPDX-License-Identifier: Apache-2.0
"""The file by which a preStop hook tells an engine that it is to end."""

import threading
from pathlib import Path

from tandem_connector.drain import tell
from tandem_connector.vllm.drain_mark import DrainMark, mark_of


def test_what_the_hook_leaves_beside_the_status_file_is_found(tmp_path: Path) -> None:
    found, status = threading.Event(), tmp_path / "status.json"
    mark = DrainMark(mark_of(status), found.set)
    tell(str(status))
    assert found.wait(30)
    mark.close()


def test_a_mark_that_was_for_the_process_before_is_none(tmp_path: Path) -> None:
    found, status = threading.Event(), tmp_path / "status.json"
    tell(str(status))
    mark = DrainMark(mark_of(status), found.set)
    assert not mark_of(status).exists()
    mark.close()
    assert not found.is_set()
