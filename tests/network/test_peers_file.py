# SPDX-License-Identifier: Apache-2.0
"""The peer table's file: replaced as Kubernetes does it, stale, malformed, gone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from tandem_connector.contract.peers import Drain
from tandem_connector.contract.types import EngineState
from tandem_connector.vllm.peer_table import TableReader
from tandem_connector.vllm.peers_file import PeersFile, PeersFileSettings
from tests.network.tables import Listener, Volume, a_peer, a_table, until

ONE, TWO, THREE = a_peer("one"), a_peer("two"), a_peer("three")
QUICK = PeersFileSettings(step=0.01, reread=5.0, poll=0.02)
Watch = Callable[..., PeersFile]


@pytest.fixture
def watch() -> Iterator[Watch]:
    files: list[PeersFile] = []

    def start(
        path: Path,
        listener: Callable[..., None],
        settings: PeersFileSettings = QUICK,
        on_refused: Callable[[], None] | None = None,
    ) -> PeersFile:
        files.append(PeersFile(path, listener, on_refused=on_refused, settings=settings))
        return files[-1]

    yield start
    for file in files:
        file.close()


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path)


def test_the_first_table_adds_all_peers_and_the_next_tells_what_differs() -> None:
    reader = TableReader()
    first = reader.read(a_table(1, ONE, TWO))
    assert first is not None
    assert (first.added, first.removed, first.changed) == ((ONE, TWO), (), ())
    drained = a_peer("one", state=EngineState.DRAINING)
    second = reader.read(a_table(2, drained, THREE))
    assert second is not None
    assert (second.added, second.removed, second.changed) == ((THREE,), (TWO,), (drained,))
    assert reader.table == second.table
    assert reader.counts.accepted == 2


def test_a_new_generation_that_says_the_same_changes_no_peer() -> None:
    reader = TableReader()
    reader.read(a_table(1, ONE))
    change = reader.read(a_table(2, ONE))
    assert change is not None
    assert (change.table.generation, change.added, change.removed, change.changed) == (2, (), (), ())


def test_a_table_tells_its_engine_to_drain_and_to_whom() -> None:
    reader = TableReader()
    reader.read(a_table(1, ONE))
    change = reader.read(a_table(2, ONE, drain=Drain(successor=ONE.engine)))
    assert change is not None
    assert change.table.drain == Drain(successor=ONE.engine)
    assert (change.added, change.removed, change.changed) == ((), (), ())
    assert reader.read(a_table(2, ONE)) is None
    assert reader.counts.conflicting == 1


def test_a_table_of_a_lower_generation_is_ignored() -> None:
    reader = TableReader()
    reader.read(a_table(5, ONE))
    assert reader.read(a_table(4, TWO)) is None
    assert reader.table is not None
    assert reader.table.peers == (ONE,)
    assert reader.counts.stale == 1


def test_the_same_generation_with_other_peers_is_an_error_and_with_the_same_nothing() -> None:
    reader = TableReader()
    reader.read(a_table(5, ONE))
    assert reader.read(b" " + a_table(5, ONE)) is None
    assert reader.counts.conflicting == 0
    assert reader.read(a_table(5, TWO)) is None
    assert reader.counts.conflicting == 1
    assert reader.table is not None
    assert reader.table.peers == (ONE,)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "content: Invalid JSON"),
        (b"\xff\xfe", "content: Invalid JSON"),
        (b"[]", "content: Input should be an object"),
        (
            b'{"version": 2, "generation": 9, "digest": "", "peers": []}',
            "version: Input should be less than or equal to 1",
        ),
        (
            a_table(9, TWO).replace(b'"httpPort":8000', b'"httpPort":0'),
            "peers.0.address.httpPort: Input should be greater",
        ),
        (a_table(9, TWO).replace(b"10.0.0.1", b"10.0.0.2"), "its digest is"),
        (a_table(9, TWO, TWO), "an engine is in it twice"),
        (a_table(9, TWO).replace(b'"drain":null', b'"drain":{"successor":null}'), "its digest is"),
        (
            a_table(9, TWO).replace(b'"drain":null', b'"drain":{"successor":"one"}'),
            "content: Value error, the successor one is none of the peers",
        ),
        (a_table(9, TWO).replace(b'"heir":null', b'"heir":"two"'), "its digest is"),
        (
            a_table(9, TWO).replace(b'"heir":null', b'"heir":"one"'),
            "content: Value error, the heir one is none of the peers",
        ),
        (a_table(9, TWO).replace(b'"gone":[]', b'"gone":["other"]'), "its digest is"),
        (b" " * (2 << 20), "it is empty"),
        (b"x" * (2 << 20), "it is longer than 1048576 bytes"),
        (b"", "it is empty"),
        (b"[" * 100_000, "content: Invalid JSON"),
    ],
)
def test_what_is_no_table_is_counted_once_and_the_known_table_stays(
    content: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = TableReader()
    reader.read(a_table(1, ONE))
    assert reader.read(content) is None
    assert reader.read(content) is None
    assert reader.table is not None
    assert reader.table.peers == (ONE,)
    assert (reader.counts.malformed, reader.counts.accepted) == (1, 1)
    assert f"peer_table_malformed why={why}" in caplog.text
    assert reader.read(a_table(2, TWO)) is not None


def test_an_empty_file_before_the_first_table_is_no_error() -> None:
    reader = TableReader()
    assert reader.read(b"") is None
    assert reader.counts.malformed == 0


def test_a_table_that_is_swapped_by_its_folders_link_is_noticed(volume: Volume, watch: Watch) -> None:
    listener = Listener()
    volume.put(a_table(1, ONE))
    file = watch(volume.path, listener)
    listener.hears_of(1)
    for generation in range(2, 6):
        volume.put(a_table(generation, TWO))
        listener.hears_of(generation)
    assert file.table is not None
    assert file.table.peers == (TWO,)
    assert file.counts.accepted == 5


def test_a_table_that_appears_later_is_noticed(volume: Volume, watch: Watch) -> None:
    listener = Listener()
    file = watch(volume.path, listener)
    assert file.table is None
    volume.put(a_table(1, ONE))
    assert listener.hears_of(1).added == (ONE,)
    assert file.counts.unreadable == 0


def test_a_folder_that_appears_later_is_noticed(tmp_path: Path, watch: Watch) -> None:
    volume = Volume(tmp_path / "a folder")
    listener = Listener()
    watch(volume.path, listener)
    volume.folder.mkdir()
    volume.put(a_table(1, ONE))
    assert listener.hears_of(1).added == (ONE,)


def test_a_table_that_is_gone_is_kept_and_followed_when_it_is_back(volume: Volume, watch: Watch) -> None:
    listener = Listener()
    volume.put(a_table(1, ONE))
    file = watch(volume.path, listener)
    listener.hears_of(1)
    volume.remove()
    until(lambda: file.counts.unreadable == 1)
    assert file.table is not None
    volume.put(a_table(2, TWO))
    assert listener.hears_of(2).removed == (ONE,)


def test_a_file_that_is_replaced_in_place_is_noticed(tmp_path: Path, watch: Watch) -> None:
    path = tmp_path / "peers.json"
    path.write_bytes(a_table(1, ONE))
    listener = Listener()
    watch(path, listener)
    listener.hears_of(1)
    (tmp_path / "new").write_bytes(a_table(2, TWO))
    (tmp_path / "new").rename(path)
    listener.hears_of(2)


def test_a_stale_or_malformed_table_on_disk_is_passed_over(volume: Volume, watch: Watch) -> None:
    listener = Listener()
    volume.put(a_table(5, ONE))
    file = watch(volume.path, listener)
    listener.hears_of(5)
    volume.put(a_table(4, TWO))
    until(lambda: file.counts.stale == 1)
    volume.put(b"oops")
    until(lambda: file.counts.malformed == 1)
    volume.put(a_table(6, TWO))
    listener.hears_of(6)
    assert [change.table.generation for change in listener.changes] == [5, 6]


def test_it_is_told_once_of_each_content_that_is_not_taken_up(volume: Volume, watch: Watch) -> None:
    listener = Listener()
    refused: list[int] = []
    volume.put(a_table(5, ONE))
    file = watch(volume.path, listener, on_refused=lambda: refused.append(1))
    listener.hears_of(5)
    assert refused == []
    for number, content in enumerate((a_table(4, TWO), b"oops", a_table(5, TWO)), start=1):
        volume.put(content)
        until(lambda number=number: len(refused) == number)  # type: ignore[misc]
    volume.put(a_table(6, TWO))
    listener.hears_of(6)
    assert (len(refused), file.counts.refused) == (3, 3)


def test_a_lost_notification_delays_a_table_only(volume: Volume, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(*paths: Any, rust_timeout: int, stop_event: Any, **_: Any) -> Iterator[set[Any]]:
        while not stop_event.wait(rust_timeout / 1000):
            yield set()

    monkeypatch.setattr(watchfiles, "watch", deaf)
    listener = Listener()
    watch(volume.path, listener, PeersFileSettings(reread=0.02))
    volume.put(a_table(1, ONE))
    listener.hears_of(1)


def test_without_notifications_the_file_is_polled(
    volume: Volume, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: Any, **__: Any) -> Iterator[set[Any]]:
        raise OSError("Too many open files (os error 24)")

    monkeypatch.setattr(watchfiles, "watch", exhausted)
    listener = Listener()
    watch(volume.path, listener)
    for generation in (1, 2):
        volume.put(a_table(generation, ONE))
        listener.hears_of(generation)


def test_who_fails_to_take_a_table_is_told_of_the_next(volume: Volume, watch: Watch) -> None:
    listener = Listener()

    refused: list[int] = []

    def fails_once(change: Any) -> None:
        if change.table.generation == 1:
            raise RuntimeError("not now")
        listener(change)

    volume.put(a_table(1, ONE))
    file = watch(volume.path, fails_once, on_refused=lambda: refused.append(1))
    until(lambda: file.counts.failed == 1)
    volume.put(a_table(2, ONE))
    listener.hears_of(2)
    assert refused == [1]
