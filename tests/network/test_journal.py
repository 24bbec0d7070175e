# SPDX-License-Identifier: Apache-2.0
"""The debug log: what is in it, how it is bounded, and that an exchange goes the same way again."""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tandem_connector.contract.messages import Cancel, Envelope, Missing, MissingReason, Offer, Purpose, Want
from tandem_connector.contract.types import OfferId, WantId
from tandem_connector.exchange.commands import Send
from tandem_connector.exchange.exchange import Exchange
from tandem_connector.exchange.types import EngineId, OfferedRun, RequestId, StepId
from tandem_connector.vllm.journal import Entry, Journal, previous, read_journal
from tandem_connector.vllm.recording import EVENTS, RecordedExchange
from tandem_connector.vllm.replay import ReplayError, replay
from tests.exchange.builders import ME, PEER, Engine, names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a journal.jsonl"


def test_an_entry_is_one_line_with_time_kind_and_content(path: Path) -> None:
    journal = Journal(path, clock=lambda: 12.5)
    envelope = Envelope(EngineId("a"), EngineId("b"), Cancel(WantId(3)))
    journal.write("receive", envelope)
    journal.close()
    (line,) = path.read_text().splitlines()
    assert json.loads(line) == {"at": 12.5, "kind": "receive", "content": ["a", "b", ["cancel", 3]]}
    (entry,) = read_journal(path)
    assert (entry.at, entry.kind) == (12.5, "receive")
    assert msgspec.json.decode(entry.content, type=Envelope) == envelope


def test_a_journal_keeps_the_newest_entries_within_twice_its_limit(path: Path) -> None:
    journal = Journal(path, limit=1_000)
    for number in range(100):
        journal.write("number", number)
    journal.close()
    both = [*read_journal(previous(path)), *read_journal(path)]
    assert [int(bytes(entry.content)) for entry in both] == list(range(100 - len(both), 100))
    assert path.stat().st_size + previous(path).stat().st_size <= 2_000
    assert len(both) > 20


def test_a_journal_that_is_there_already_is_kept_as_the_previous_one(path: Path) -> None:
    for number in range(2):
        journal = Journal(path)
        journal.write("number", number)
        journal.close()
    assert [bytes(entry.content) for entry in read_journal(previous(path))] == [b"0"]
    assert [bytes(entry.content) for entry in read_journal(path)] == [b"1"]


def test_a_journal_without_disk_ends_and_harms_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        journal.write("number", 1)
    journal.write("number", 2)
    journal.close()
    assert list(read_journal(path)) == []
    assert "journal_ended" in caplog.text


def test_a_line_that_a_crash_cut_off_ends_the_journal(path: Path) -> None:
    journal = Journal(path)
    journal.write("number", 1)
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"at": 1.0, "ki')
    assert len(list(read_journal(path))) == 1


def test_every_method_that_changes_an_exchange_is_recorded() -> None:
    public = {name for name, _ in inspect.getmembers(Exchange, inspect.isfunction) if not name.startswith("_")}
    questions = {
        *("commands", "next_due", "reaches", "has_settled_with", "moves_to"),
        *("exposable", "incoming_prefix", "gauges"),
    }
    assert set(EVENTS) == public - questions


def recorded(journal: Journal) -> Engine:
    engine = Engine()
    engine.exchange = RecordedExchange(ME, engine.pool, None, journal)
    return engine


@pytest.fixture
def story(path: Path) -> Path:
    """A journal in which an engine wants, serves, is offered, loses a peer, and shuts down."""
    journal = Journal(path)
    engine = recorded(journal).with_peer()
    engine.pool.cached(*names(0, 5, "b"))

    first = engine.wants(names(0, 3), request="one")
    engine.take(Send)
    engine.received(first, 0, 1)
    engine.hears(Missing(first, None, MissingReason.NOT_CACHED))
    assert engine.commands()

    want = Want(WantId(9), Purpose.REVERSE_FETCH, names(0, 8, "b"), tuple(range(8)), 5.0, wait=True)
    engine.exchange.request_produces(RequestId("two"), iter(names(5, 7, "b")))
    engine.hears(want)
    (write,) = engine.writes()
    engine.wrote(write)
    engine.steps(1, names(5, 7, "b"), request="two", position=5)
    engine.exchange.step_finished(StepId(1))
    engine.at(3.0).commands()

    engine.hears(Offer(OfferId(1), Purpose.REVERSE_PUSH, 0, names(0, 6, "c")))
    assert engine.take(Send)
    engine.exchange.offer(PEER, OfferedRun(0, names(0, 5, "b")))
    engine.exchange.set_waiting_tokens(11)
    engine.exchange.peer_silent(PEER, engine.now)
    engine.at(1.0).commands()
    engine.exchange.peer_connected(PEER, 1_000, engine.now)
    engine.exchange.request_ended(RequestId("two"), engine.now, offer=True)
    engine.exchange.peer_gone(PEER, engine.now)
    engine.exchange.shutdown(engine.now)
    engine.at(20.0).commands()
    journal.write("asked", "what is not the exchange's is passed over")
    journal.close()
    return path


def test_an_exchange_goes_the_same_way_again(story: Path) -> None:
    kinds = {entry.kind for entry in read_journal(story)}
    assert {"exchange", "receive", "want", "want_received", "write_ended", "tick", "pool", "commands"} <= kinds
    assert replay(read_journal(story)).tally.wants_ended.total() == 2


def test_another_process_goes_the_same_way(story: Path) -> None:
    """Nothing may hang on the order of a set, which differs from process to process."""
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "tandem_connector.vllm.replay", str(story)]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("the same to the end: Gauges(wants_open=0,")


def changed(entries: Iterator[Entry], kind: str, old: bytes, new: bytes) -> Iterator[Entry]:
    for entry in entries:
        content = bytes(entry.content)
        hit = entry.kind == kind and old in content
        yield Entry(entry.at, entry.kind, msgspec.Raw(content.replace(old, new)) if hit else entry.content)


@pytest.mark.parametrize(
    ("kind", "old", "new", "why"),
    [
        ("commands", b'"missing"', b'"complete"', r"entry \d+ \(commands\)"),
        ("pool", b'["room",[0],', b'["space",[0],', r"entry \d+ \(pool\)"),
        ("want_received", b"[0,1]", b"[0,1,2]", r"entry \d+"),
    ],
)
def test_where_it_goes_another_way_is_said(story: Path, kind: str, old: bytes, new: bytes, why: str) -> None:
    with pytest.raises(ReplayError, match=why):
        replay(changed(read_journal(story), kind, old, new))


def test_a_journal_without_its_beginning_is_refused(story: Path) -> None:
    with pytest.raises(ReplayError, match="doesn't begin where the engine did"):
        replay(list(read_journal(story))[1:])
