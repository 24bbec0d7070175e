# SPDX-License-Identifier: Apache-2.0
"""The state folder: nobody else's files are removed, and two don't work on it at once."""

import threading
from pathlib import Path

import pytest

from e2e.cluster.interface import ClusterError
from e2e.cluster.local import state
from e2e.cluster.local.endpoints import Endpoints
from e2e.cluster.local.layout import Layout
from e2e.cluster.local.state import Profile, Record


def test_what_was_made_is_removed(tmp_path: Path) -> None:
    state.make(tmp_path / "deep" / "down")
    (tmp_path / "deep" / "down" / "etcd").mkdir()

    state.remove(tmp_path / "deep" / "down")

    assert not (tmp_path / "deep" / "down").exists()


def test_a_folder_with_other_files_is_neither_used_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()

    with pytest.raises(ClusterError, match="has other files in it"):
        state.make(tmp_path)
    state.remove(tmp_path)

    assert (tmp_path / "thesis.tex").exists()


def test_removing_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    state.remove(tmp_path / "none")


@pytest.mark.parametrize("profile", list(Profile))
def test_a_record_is_read_as_it_was_written(profile: Profile, tmp_path: Path) -> None:
    record = Record(profile, "/cache/kubernetes", Endpoints("127.0.0.1", apiserver=12345), ["etcd", "kubelet"])

    record.write(Layout(tmp_path))

    assert Record.read(Layout(tmp_path)) == record


@pytest.mark.parametrize("text", ["", "{}", '{"profile": "moon"}', "[]"])
def test_a_record_that_is_not_whole_counts_as_none(text: str, tmp_path: Path) -> None:
    Layout(tmp_path).record.write_text(text)

    assert Record.read(Layout(tmp_path)) is None


def test_the_second_waits_for_the_first_and_the_last_takes_the_lock_away(tmp_path: Path) -> None:
    root = tmp_path / "state"
    order: list[str] = []
    first_is_in, second_waits = threading.Event(), threading.Event()

    def first() -> None:
        with state.only_one(root):
            root.mkdir()
            first_is_in.set()
            second_waits.wait(20)
            order.append("first")

    def second() -> None:
        first_is_in.wait(20)
        second_waits.set()
        with state.only_one(root):
            order.append("second")
            root.rmdir()

    threads = [threading.Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_the_lock_can_be_taken_again_after_it_was_removed(tmp_path: Path) -> None:
    for _ in range(2):
        with state.only_one(tmp_path / "state"):
            pass

    assert list(tmp_path.iterdir()) == []
